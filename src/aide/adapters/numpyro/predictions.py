"""Deterministic and observed sites of a NumPyro model, as functions of its variables."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro import handlers
from numpyro.distributions import (
    BernoulliLogits,
    BernoulliProbs,
    Distribution,
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
)

from aide.adapters.numpyro.sites import Site, Trace, is_latent, named, promote, run_at
from aide.adapters.predictions import Prediction, ValuesByName, predictions_of

if TYPE_CHECKING:
    from aide.adapters.numpyro.posterior import NumpyroPosterior


def predictions(
    posterior: "NumpyroPosterior",
    names: tuple[str, ...],
    below: float | None,
    above: float | None,
    args: tuple[Any, ...] | None,
    kwargs: Mapping[str, Any] | None,
) -> dict[str, Prediction]:
    """See `NumpyroPosterior.predict`; call it in double precision."""
    if args is None and kwargs is None:
        args, kwargs = posterior.args, posterior.kwargs
    args, kwargs = promote(tuple(args or ())), promote(dict(kwargs or {}))

    def sites_at(values: ValuesByName, seed: int = 0) -> Trace:
        own_values = {name: values[name] for name in posterior.names}
        run = handlers.substitute(posterior.model, substitute_fn=named(own_values))
        return run_at(handlers.seed(run, seed), args, kwargs)

    def make(name: str, threshold: float | None) -> Callable[[ValuesByName], Array]:
        return lambda values: _value_of(sites_at(values)[name], threshold)

    values = posterior.constrain(jnp.zeros(posterior.dimension))
    seeds = [sites_at(values, seed) for seed in (0, 1)]
    known = [name for name, site in seeds[0].items() if _is_predictable(posterior, site)]
    found = predictions_of(make, names, known, below, above, values)
    for name in names or known:
        _refuse_random(posterior, name, seeds, above if below is None else below)
    return found


def _is_predictable(posterior: "NumpyroPosterior", site: Site) -> bool:
    """Whether a site is a function of the variables, or has a law given the variables."""
    if site["type"] == "deterministic":
        return True
    is_factor = type(site.get("fn")).__name__ == "Unit"
    return site["type"] == "sample" and site["name"] not in posterior.names and not is_factor


def _refuse_random(
    posterior: "NumpyroPosterior", name: str, seeds: list[Trace], threshold: float | None
) -> None:
    """Raise where a prediction depends on variables that the posterior does not have."""
    values = [np.asarray(_value_of(sites[name], threshold)) for sites in seeds]
    if np.array_equal(*values, equal_nan=True):
        return
    new = [
        other
        for other, site in seeds[0].items()
        if is_latent(site) and other not in (*posterior.names, name)
    ]
    raise ValueError(
        f"{name} depends on random variables that the posterior does not have "
        f"(among {', '.join(new)}), so that its mean given the posterior's variables is not known. "
        "Write a function of the posterior's variables instead."
    )


def _value_of(site: Site, threshold: float | None) -> Array:
    """A deterministic value, or the mean of a distribution; with a threshold, its probability."""
    if site["type"] == "deterministic":
        value = jnp.asarray(site["value"])
        return value if threshold is None else (value <= threshold).astype(float)
    law, name = site["fn"], site["name"]
    try:
        if threshold is None:
            return jnp.asarray(law.mean)
        return jnp.asarray(_share_below(law, threshold))
    except NotImplementedError:
        what = "mean" if threshold is None else "distribution function"
        raise ValueError(
            f"{name}: NumPyro has no {what} of {type(law).__name__}. Write a function of the "
            "posterior's variables instead."
        ) from None


def _share_below(law: Distribution, threshold: float) -> Any:
    """The probability of every element to be at or below the threshold."""
    if isinstance(law, Independent | ExpandedDistribution | MaskedDistribution):
        return jnp.broadcast_to(_share_below(law.base_dist, threshold), law.shape())
    if isinstance(law, BernoulliLogits | BernoulliProbs):
        return jnp.where(threshold < 0, 0.0, jnp.where(threshold < 1, 1 - law.mean, 1.0))
    return law.cdf(jnp.asarray(threshold, float))
