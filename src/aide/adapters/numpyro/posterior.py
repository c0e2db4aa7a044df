"""A NumPyro model with its arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro import handlers
from numpyro.distributions import Unit, biject_to
from numpyro.infer import MCMC

from aide._core.keywords import keywords
from aide._core.types import Key, LogProb
from aide.adapters.layout import Layout, Variable
from aide.adapters.numpyro.guides import make_target
from aide.adapters.numpyro.predictions import predictions
from aide.adapters.numpyro.sites import (
    Site,
    Trace,
    check_sites,
    forget_single_precision,
    is_latent,
    is_observed,
    is_random,
    log_prob_of,
    named,
    promote,
    run_at,
    run_once,
    same_supports,
    words_for,
)
from aide.adapters.posterior import (
    AbstractPosterior,
    Values,
    check_data,
    warn_of_other,
    with_divergences,
)
from aide.adapters.predictions import Prediction
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double

MISSING = (
    "Leave these entries out, mask them (dist.Normal(...).mask(~jnp.isnan(y)) with "
    "obs=jnp.nan_to_num(y)), or make them latent variables."
)
"""Advice where data hold NaN."""
DISCRETE = (
    "Sum it out by hand (dist.MixtureSameFamily for a mixture, a forward pass for a hidden Markov "
    "model), or condition on it: numpyro.handlers.condition(model, data={...})."
)


class NumpyroPosterior(AbstractPosterior):
    r"""The posterior of a NumPyro model; `posterior` makes one.

    Prior: the latent sites. Likelihood: the observed sites and `numpyro.factor`. The map
    $\theta = T(x)$ is `biject_to` of each site's support, which may depend on other sites.

    Example:
        >>> import numpyro, numpyro.distributions as dist
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        ...
        >>> post = aide.numpyro.posterior(model, 2.0)
        >>> isinstance(post, aide.numpyro.NumpyroPosterior)
        True
    """

    def __init__(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        layout: Layout,
        derived: tuple[str, ...],
        has_fixed_supports: bool,
    ):
        super().__init__(layout, derived, getattr(model, "__name__", "model"))
        self.model, self.args, self.kwargs = model, args, kwargs
        self.has_fixed_supports = has_fixed_supports

    def log_joint(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x), y) + \log|\det T'(x)|$."""
        sites = self._sites_at(x)
        return self._guarded(sites, self._sum(sites, is_random) + self._log_jacobian(x, sites))

    def log_prior(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(T(x)) + \log|\det T'(x)|$: latent sites, and the Jacobian."""
        sites = self._sites_at(x)
        return self._guarded(sites, self._sum(sites, is_latent) + self._log_jacobian(x, sites))

    def log_likelihood(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log p(y \mid T(x))$: observed sites and factors."""
        sites = self._sites_at(x)
        return self._guarded(sites, self._sum(sites, is_observed))

    def log_jacobian(self, x: Float[Array, " d"]) -> LogProb:
        r"""$\log|\det T'(x)|$."""
        return self._log_jacobian(x, self._sites_at(x))

    def constrain(self, x: Float[Array, " d"]) -> dict[str, Array]:
        r"""$\theta = T(x)$, by name."""
        sites = self._sites_at(x)
        return {name: sites[name]["value"] for name in self.names}

    def unconstrain(self, values: Values) -> Float[Array, " d"]:
        r"""$x = T^{-1}(\theta)$."""
        values = {name: jnp.asarray(values[name], float) for name in self.names}
        run = handlers.substitute(self.model, substitute_fn=named(values))
        sites = run_at(run, self.args, self.kwargs)
        parts = {n: biject_to(sites[n]["fn"].support).inv(value) for n, value in values.items()}
        return self.layout.pack(parts)

    def prior(self) -> Tractable:
        """The prior, as a start for `aide.tempered_smc`, `aide.ais` and `aide.mcmc`.

        An improper prior cannot be sampled; `numpyro` then raises an error.
        """

        def sample(key: Key) -> Float[Array, " d"]:
            run = handlers.seed(self.model, key)
            sites = run_at(run, self.args, self.kwargs)
            return self.unconstrain({name: sites[name]["value"] for name in self.names})

        return Tractable(sample, self.log_prior, label=f"prior of {self.label}")

    def prior_start(self) -> Tractable | None:
        """The prior, unless it is improper."""
        prior = self.prior()
        try:
            in_double(jax.eval_shape, prior.sample, jax.random.key(0))
        except (NotImplementedError, ValueError, TypeError):
            return None
        return prior

    def sample_joint(self, key: Key) -> tuple[Float[Array, " d"], dict[str, Array]]:
        """Draw parameters from the prior, as the vector, and data of all observed sites by name.

        An improper prior and `numpyro.factor` cannot be simulated: they are errors.
        """
        run = handlers.seed(handlers.uncondition(self.model), key)
        sites = run_at(run, self.args, self.kwargs)
        drawn = {name: site for name, site in sites.items() if is_latent(site)}
        factors = [name for name, site in drawn.items() if isinstance(site["fn"], Unit)]
        if factors:
            raise ValueError(
                f"{self.label} cannot be simulated: {', '.join(factors)} is a factor, which no "
                "data are drawn from. Write sample_joint(key) -> (x, y) as a function."
            )
        x = self.unconstrain({name: drawn[name]["value"] for name in self.names})
        return x, {name: s["value"] for name, s in drawn.items() if name not in self.names}

    def log_joint_given(self, x: Float[Array, " d"], data: Mapping[str, Any]) -> LogProb:
        """The log joint for these values of the observed sites, as `sample_joint` draws them."""
        model = handlers.condition(handlers.uncondition(self.model), data=dict(data))
        other = NumpyroPosterior(
            *(model, self.args, self.kwargs, self.layout, self.derived, self.has_fixed_supports)
        )
        return other.log_joint(x)

    @keywords("from_mcmc")
    def from_mcmc(self, mcmc: MCMC, label: str = "", *, check_score: bool = True) -> ReferenceDraws:
        """The draws of `mcmc`, which has been run, as a gold standard, taken as exact.

        Args:
            mcmc: A run on this model and these data; deterministic sites are left out.
            label: A name for tables; by default the kernel and the number of draws.
            check_score: See `from_draws`.
        """
        if isinstance(mcmc, Mapping):
            raise TypeError(
                "from_mcmc takes the MCMC object itself, got a mapping of draws. Pass mcmc rather "
                "than mcmc.get_samples(), which has lost the chains; draws from elsewhere go to "
                "post.from_draws(draws)."
            )
        if not callable(getattr(mcmc, "get_samples", None)):
            raise TypeError(
                f"from_mcmc takes a numpyro.infer.MCMC that has been run, got "
                f"{type(mcmc).__name__}. Draws by name go to post.from_draws(draws), ArviZ data to "
                "post.from_arviz(data)."
            )
        self._compare_models(getattr(mcmc, "sampler", None), "draws were", "draws")
        draws = mcmc.get_samples(group_by_chain=True)
        num = mcmc.num_chains * next(iter(draws.values())).shape[1]
        label = label or f"{num:,} {type(mcmc.sampler).__name__} draws"
        made = self.from_draws(draws, label, check_score=check_score)
        diverging = mcmc.get_extra_fields().get("diverging", 0)
        return with_divergences(made, int(np.sum(np.asarray(diverging))))

    def guide(self, guide: Callable[..., Any], params: Any, label: str = "") -> Tractable:
        """A variational fit as a target.

        Automatic guides with a density are matched with the variables by name, in any order;
        guides written by hand, with the arguments of the model, are moved to the
        reals with their Jacobian. Guides that cannot score outputs of others are refused.

        Args:
            guide: The guide.
            params: The result of `svi.run`, or its `params`, or those of `svi.get_params`.
            label: A name for tables.
        """
        self._compare_models(guide, "guide was", "fit")
        return in_double(make_target, self, guide, params, label)

    def predict(
        self,
        *names: str,
        below: float | None = None,
        above: float | None = None,
        args: tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> dict[str, Prediction]:
        r"""Deterministic and observed sites by name, as functions for `errors(functions=...)`.

        A deterministic site is its value; a site with a distribution is the mean of that, given
        the variables, so that the mean of the function is the mean of the posterior predictive.

        Args:
            names: Sites; by default all that the model has. Arrays are reported by element.
            below: With a threshold, the probability to be at or below it, in place of the mean.
            above: With a threshold, the probability to be above it.
            args: Arguments of the model for other data, as `Predictive(model, ...)(key, *args)`
                gets them; by default those of the posterior.
            kwargs: Keyword arguments of the model for other data.
        """
        return in_double(predictions, self, names, below, above, args, kwargs)

    def _compare_models(self, made: Any, subject: str, noun: str) -> None:
        """Warn if a guide or a kernel was made for a model with another log joint."""
        other = getattr(made, "model", None)
        if not callable(other) or other is self.model:
            return
        try:
            others = posterior(other, *self.args, **self.kwargs)
        except Exception:  # trained on subsamples, or with other arguments: no comparison
            return
        if others.layout.coordinates != self.layout.coordinates:
            return  # matching by name raises an error in words
        warn_of_other(self, others, subject, noun)

    def _sites_at(self, x: Float[Array, " d"]) -> Trace:
        """A run of the model in which each latent site has its value $T(x)$."""
        parts = self.layout.unpack(x)

        def constrained(site: Site) -> Any:
            part = parts.get(site["name"]) if is_latent(site) else None
            return None if part is None else biject_to(site["fn"].support)(part)

        run = handlers.substitute(self.model, substitute_fn=constrained)
        return run_at(run, self.args, self.kwargs)

    def _log_jacobian(self, x: Float[Array, " d"], sites: Trace) -> LogProb:
        parts = self.layout.unpack(x)
        logs = [
            biject_to(sites[name]["fn"].support).log_abs_det_jacobian(part, sites[name]["value"])
            for name, part in parts.items()
        ]
        return sum(map(jnp.sum, logs), start=jnp.zeros(()))

    @staticmethod
    def _sum(sites: Trace, chosen: Callable[[Site], bool]) -> LogProb:
        logs = [log_prob_of(site) for site in sites.values() if chosen(site)]
        return sum(logs, start=jnp.zeros(()))

    def _guarded(self, sites: Trace, log_density: LogProb) -> LogProb:
        r"""Where a value overflows ($e^{800}$), the density is 0 and not `inf - inf`."""
        finite = [jnp.all(jnp.isfinite(sites[name]["value"])) for name in self.names]
        return jnp.where(jnp.all(jnp.stack(finite)), log_density, -jnp.inf)


def posterior(model: Callable[..., Any], /, *args: Any, **kwargs: Any) -> NumpyroPosterior:
    """The posterior of a NumPyro model, given the arguments that `mcmc.run` or `svi.run` get.

    Arguments are promoted to double precision. Discrete latent variables, plates that subsample and
    `numpyro.param` sites without a value are refused with advice.

    Args:
        model: A model with NumPyro's primitives.
        args: What `mcmc.run` gets after the key.
        kwargs: Likewise, by name.

    Returns:
        The posterior, with methods that make gold standards and targets from runs and fits.

    Example:
        >>> import numpyro, numpyro.distributions as dist
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        ...
        >>> post = aide.numpyro.posterior(model, 2.0)
        >>> post.layout.coordinates
        ('mu',)
    """
    in_double(forget_single_precision, model)
    return in_double(_posterior, model, args, kwargs)


def _posterior(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> NumpyroPosterior:
    args, kwargs = promote(args), promote(kwargs)
    what = f"model {getattr(model, '__name__', 'model')}"
    try:
        sites, unset = run_once(model, args, kwargs, seed=0)
    except ValueError as error:  # NumPyro refuses parameters that are NaN
        data = _data_of(model, args, kwargs, {})
        check_data(what, data, lambda: np.nan, f"NumPyro says: {error} {MISSING}")
        raise
    _check_data(what, model, args, kwargs, sites)
    check_sites(what, sites, DISCRETE)
    if unset:
        raise ValueError(
            f"{what} has parameters without a value: {', '.join(unset)}. A posterior is one of a "
            "fixed model: numpyro.handlers.substitute(model, data=params)."
        )
    variables = tuple(_variable(name, site) for name, site in sites.items() if is_latent(site))
    if not variables:
        raise ValueError(f"{what} has no latent variable: there is nothing to infer.")
    names = tuple(variable.name for variable in variables)
    again, _ = run_once(model, args, kwargs, seed=1)
    check_data(
        what,
        _data_of(model, args, kwargs, sites),
        lambda: [NumpyroPosterior._sum(run, is_observed) for run in (sites, again)],
        MISSING,
    )
    derived = tuple(name for name, site in sites.items() if site["type"] == "deterministic")
    fixed = same_supports(sites, again, names)
    return NumpyroPosterior(model, args, kwargs, Layout(variables), derived, fixed)


def _data_of(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], sites: Trace
) -> dict[str, Any]:
    """The arrays among the arguments, by name, and observed values that are no argument."""
    try:
        given = dict(inspect.signature(model).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        given = {f"argument {place}": value for place, value in enumerate(args)} | kwargs
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(given):
        parts = [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
        found[".".join(parts)] = leaf
    observed = [name for name, site in sites.items() if is_observed(site)]
    return found | {name: sites[name]["value"] for name in observed if name not in found}


def _check_data(
    what: str,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    sites: Trace,
) -> None:
    """Raise if a variable is latent because the argument of the same name was not given."""
    try:
        signature = inspect.signature(model)
        given = signature.bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return
    absent = [n for n, p in signature.parameters.items() if p.default is None and n not in given]
    latent = {name: site for name, site in sites.items() if is_latent(site)}
    found = [name for name in absent if name in latent]
    if not found and absent and any(site["fn"].support.is_discrete for site in latent.values()):
        found = [name for name, site in latent.items() if site["fn"].support.is_discrete]
    if found:
        raise ValueError(
            f"{what} was called without its data: {', '.join(found)} would be unknown, because the "
            f"arguments {', '.join(absent)} were not given. Pass what mcmc.run gets: "
            f"aide.numpyro.posterior(model, ..., {absent[0]}=...)."
        )


def _variable(name: str, site: Site) -> Variable:
    support = site["fn"].support
    shape = tuple(jnp.shape(site["value"]))
    return Variable(name, shape, tuple(biject_to(support).inverse_shape(shape)), words_for(support))
