"""NumPyro guides with their parameters, as targets on the vector of a posterior."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer import autoguide

from aide._core.types import Key
from aide.adapters.numpyro.sites import (
    Trace,
    check_sites,
    is_latent,
    log_prob_of,
    named,
    promote,
    run_at,
    run_once,
)
from aide.algorithms.tractable import Tractable

if TYPE_CHECKING:
    from aide.adapters.numpyro.posterior import NumpyroPosterior

NUM_TRIED = 64
"""Number of draws of a guide that must lie in the support before it is accepted: a choice."""
NO_DENSITY = (
    "so that no divergence can be measured. Guides with a density: AutoNormal, AutoDiagonalNormal, "
    "AutoMultivariateNormal, AutoLowRankMultivariateNormal, AutoLaplaceApproximation, "
    "AutoIAFNormal, and guides written by hand."
)


def make_target(
    posterior: "NumpyroPosterior",
    guide: Callable[..., Any],
    params: Any,
    label: str,
) -> Tractable:
    """The target of a guide; call this function in double precision.

    Args:
        posterior: The posterior that the guide approximates.
        guide: An automatic guide, or one written by hand with the arguments of the model.
        params: The parameters that `svi.get_params(state)` or `svi.run(...)` returned.
        label: A name for tables.
    """
    params = promote(dict(getattr(params, "params", params)))
    if isinstance(guide, autoguide.AutoGuide):
        if not posterior.has_fixed_supports:
            raise ValueError(
                f"the support of a variable of {posterior.label} depends on other variables, and "
                f"{type(guide).__name__} keeps the first support that it saw: its draws are not "
                "those it was trained on. Write the model with a variable of fixed support and "
                "scale it (beta = numpyro.deterministic('beta', (1 - alpha) * unit)), or the guide "
                "by hand."
            )
        label = label or type(guide).__name__
        if isinstance(guide, autoguide.AutoNormal):
            return _normal_target(posterior, guide, params, label)
        return _vector_target(posterior, guide, params, label)
    return _written_target(posterior, guide, params, label or getattr(guide, "__name__", "guide"))


def _normal_target(
    posterior: "NumpyroPosterior",
    guide: autoguide.AutoNormal,
    params: Mapping[str, Any],
    label: str,
) -> Tractable:
    """Independent normals by name, on the unconstrained scale."""

    def vector(kind: str) -> Any:
        ending = f"_{guide.prefix}_{kind}"
        parts = {n.removesuffix(ending): value for n, value in params.items() if n.endswith(ending)}
        posterior.layout.check_names(f"{type(guide).__name__}, parameters *{ending}", parts)
        return posterior.layout.pack(parts)

    return Tractable.of(dist.Normal(vector("loc"), vector("scale")), label)


def _vector_target(
    posterior: "NumpyroPosterior",
    guide: autoguide.AutoGuide,
    params: Mapping[str, Any],
    label: str,
) -> Tractable:
    """A guide on one vector in its own order, which `_unpack_latent` tells."""
    kind = type(guide).__name__
    if isinstance(guide, autoguide.AutoDelta):
        raise ValueError(f"{kind} is a point and has no density, {NO_DENSITY}")
    if not isinstance(guide, autoguide.AutoContinuous):
        raise ValueError(f"{kind} has no density on one space of reals, {NO_DENSITY}")
    guide = _set_up(posterior, guide)
    order = _order(guide)
    posterior.layout.check_names(kind, order)
    try:
        with warnings.catch_warnings():  # a singular Hessian, of which NumPyro warns, is refused
            warnings.simplefilter("ignore")
            distribution = guide.get_posterior(params)
        jax.eval_shape(distribution.log_prob, jnp.zeros(posterior.dimension))
    except (NotImplementedError, AssertionError) as error:
        reason = str(error) or "its density cannot be evaluated at points from outside"
        raise ValueError(
            f"{kind} can be sampled, but cannot score the outputs of another algorithm "
            f"({reason}), {NO_DENSITY}"
        ) from error
    except KeyError as error:
        raise ValueError(
            f"{kind}: there is no parameter {error}; there are {', '.join(params)}. Pass the "
            "parameters that svi.run or svi.get_params returned for this guide."
        ) from error
    _check_scale(kind, distribution)
    return posterior.on_vector(distribution, order, label)


def _set_up(
    posterior: "NumpyroPosterior", guide: autoguide.AutoContinuous
) -> autoguide.AutoContinuous:
    """The guide after its first run, which is made here for a guide that never ran."""
    if guide.prototype_trace is not None:
        return guide
    guide = copy.copy(guide)
    handlers.seed(guide, 0)(*posterior.args, **posterior.kwargs)
    return guide


def _order(guide: autoguide.AutoContinuous) -> dict[str, Any]:
    """For every variable, the places of its entries in the vector of the guide."""
    unpack: Any = guide._unpack_latent
    return dict(unpack(jnp.arange(guide.latent_dim)))


def _check_scale(kind: str, distribution: dist.Distribution) -> None:
    """Raise for the scale 0 that NumPyro gives a Laplace approximation it cannot compute."""
    scale = getattr(distribution, "scale_tril", None)
    if scale is not None and not bool(jnp.all(jnp.diagonal(scale) > 0)):
        raise ValueError(
            f"{kind} has no positive scale in every direction: the Hessian at its centre is "
            "singular or not positive definite. Optimise longer, or use another guide."
        )


class _Written(eqx.Module):
    """A guide written by hand: sites by name, on the scale of the model.

    The parameters are arrays of this object, so that new ones compile nothing.
    """

    params: dict[str, Any]
    guide: Callable[..., Any]
    posterior: Any

    def sample(self, key: Key) -> dict[str, Any]:
        """Run the guide."""
        sites = self._run(handlers.seed(self.guide, key), {})
        return {name: sites[name]["value"] for name in self.posterior.names}

    def log_density(self, values: Mapping[str, Any]) -> Any:
        r"""The sum over all sites, and $-\infty$ where a value is outside a site's support."""
        sites = self._run(self.guide, values)
        total = jnp.zeros(())
        for name in self.posterior.names:
            inside = jnp.all(jnp.asarray(sites[name]["fn"].support(sites[name]["value"])))
            total += jnp.where(inside, log_prob_of(sites[name]), -jnp.inf)
        return total

    def _run(self, guide: Callable[..., Any], values: Mapping[str, Any]) -> Trace:
        run = handlers.substitute(guide, data=self.params)
        run = handlers.substitute(run, substitute_fn=named(values))
        return run_at(run, self.posterior.args, self.posterior.kwargs)


def _written_target(
    posterior: "NumpyroPosterior",
    guide: Callable[..., Any],
    params: Mapping[str, Any],
    label: str,
) -> Tractable:
    what = f"guide {label}"
    given = handlers.substitute(guide, data=dict(params))
    sites, unset = run_once(given, posterior.args, posterior.kwargs, seed=0)
    if unset:
        raise ValueError(
            f"{what} has parameters that params lacks: {', '.join(unset)}; there are "
            f"{', '.join(params) or 'none'}."
        )
    latent = {name: site for name, site in sites.items() if is_latent(site)}
    hidden = [name for name in latent if latent[name]["infer"].get("is_auxiliary")]
    if hidden:
        raise ValueError(
            f"{what} draws auxiliary variables ({', '.join(hidden)}): the density of the others "
            "alone is an integral that it does not know."
        )
    points = [n for n, site in latent.items() if isinstance(_innermost(site["fn"]), dist.Delta)]
    if points:
        raise ValueError(f"{what} is a point in {', '.join(points)} and has no density there.")
    check_sites(what, sites, "Only guides of continuous variables can be measured.")
    posterior.layout.check_names(what, latent)
    written = _Written(dict(params), guide, posterior)
    keys = jax.random.split(jax.random.key(0), NUM_TRIED)
    draws = jax.jit(jax.vmap(written.sample))(keys)
    try:
        posterior.flatten(draws)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    return posterior.on_values(written.sample, written.log_density, label)


def _innermost(distribution: Any) -> Any:
    """The distribution from which `expand`, `to_event` and `mask` made another one."""
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
    return distribution
