r"""BlackJAX: its reversible kernels, its samplers' draws and its Gaussian approximations.

`step(key, init(x))[0].position` is a transition that is reversible for the density it was built
with, if the accept step of the algorithm makes it so and only the position is passed from one step
to the next. A list states which algorithms these are.
"""

from collections.abc import Callable, Mapping
from typing import Any

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.vi.fullrank_vi import FRVIState
from blackjax.vi.meanfield_vi import MFVIState
from blackjax.vi.multipathfinder import MultipathfinderState
from blackjax.vi.pathfinder import PathfinderState
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.keywords import keywords
from aide._core.numerics import as_parameter
from aide._core.types import Key, LogDensity, Value
from aide.adapters.gaussian import Gaussian, GaussianMixture
from aide.algorithms.reference import ReferenceDraws
from aide.algorithms.tractable import Tractable
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.nuts import Nuts

Approximation = MFVIState | FRVIState | PathfinderState | MultipathfinderState
"""States of BlackJAX's variational algorithms and of Pathfinder."""

REVERSIBLE = (
    *("rmh", "irmh", "additive_step_random_walk", "normal_random_walk"),
    *("mala", "barker", "hmc", "nuts"),
)
"""Names in `blackjax` of the algorithms that `kernel` accepts."""

_UNADJUSTED = "has no accept step, so that it leaves the density invariant only approximately"
_MOMENTUM = (
    "keeps a momentum from one step to the next, so that its step is not a transition between "
    "positions, and it is not reversible"
)
_OWN_STATE = "keeps a random state of its own from one step to the next, beside the position"
_OWN_PRIOR = "takes a likelihood and a Gaussian prior of its own in place of one density"
REFUSED = {
    "mclmc": f"{_MOMENTUM}; it also {_UNADJUSTED}",
    "ghmc": _MOMENTUM,
    "adjusted_mclmc_dynamic": _OWN_STATE,
    "dhmc": _OWN_STATE,
    "dmhmc": _OWN_STATE,
    "mhmc": (
        "draws from a trajectory that always runs forwards from its first point, which detailed "
        "balance does not allow"
    ),
    "elliptical_slice": _OWN_PRIOR,
    "mgrad_gaussian": _OWN_PRIOR,
    "orbital_hmc": "returns a weighted orbit of positions in place of one",
    "rmhmc": "is reversible only as far as its implicit steps are solved",
    "sgld": _UNADJUSTED,
    "sghmc": _UNADJUSTED,
    "sgnht": _UNADJUSTED,
    "csgld": _UNADJUSTED,
}
"""Names in `blackjax` of the algorithms that `kernel` refuses, with the reasons."""


class BlackjaxKernel(AbstractInvariantKernel):
    """A reversible kernel of BlackJAX; built by `kernel`.

    Args:
        name: The algorithm's name in `blackjax`.
        settings: Its settings by name. Numbers with a decimal point and arrays are traced, so that
            other ones compile nothing.

    Example:
        >>> import blackjax
        >>> kernel = aide.blackjax.kernel(blackjax.mala, step_size=0.3)
        >>> kernel.name, kernel.reversal() is kernel
        ('mala', True)
    """

    name: str = eqx.field(static=True)
    settings: dict[str, Any] = eqx.field(
        converter=lambda settings: {name: _as_setting(x) for name, x in settings.items()}
    )

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """One transition of the algorithm, built for this density."""
        return self._run(key, log_density, x)[0].position

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and whether it was accepted; for NUTS, whether the state changed."""
        state, info = self._run(key, log_density, x)
        if not hasattr(info, "is_accepted"):
            return super().observe_step(key, log_density, x)
        return state.position, jnp.asarray(info.is_accepted, float)[None]

    def reversal(self) -> "BlackjaxKernel":
        """The kernel itself: detailed balance holds."""
        return self

    def _run(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Any, Any]:
        algorithm = getattr(blackjax, self.name)(log_density, **self.settings)
        return algorithm.step(key, algorithm.init(x))


def kernel(algorithm: Callable[..., Any], **settings: Any) -> BlackjaxKernel:
    """A reversible BlackJAX algorithm as a kernel for `tempered_smc`, `ais` and `mcmc`.

    `kernel(blackjax.nuts, step_size=0.3, inverse_mass_matrix=np.ones(3))`. The density is not a
    setting: it comes with every step, so that one kernel serves every temperature. Adapt settings
    on a pilot run; they are fixed here. `aide.check_kernel` tests any kernel, also one that is
    refused here.

    Args:
        algorithm: One of `REVERSIBLE`: `blackjax.rmh`, `irmh`, `additive_step_random_walk`,
            `normal_random_walk`, `mala`, `barker`, `hmc`, `nuts`. Proposals of `rmh` without a
            `proposal_logdensity_fn`, and random steps, must be symmetric.
        **settings: The arguments of `algorithm` besides the log density, by name.

    Returns:
        The kernel, for `aide.tempered_smc`, `aide.ais` and `aide.mcmc`.

    Example:
        >>> import blackjax
        >>> kernel = aide.blackjax.kernel(blackjax.hmc, step_size=0.3, num_integration_steps=5,
        ...                               inverse_mass_matrix=np.ones(1))
        >>> posterior = Normal(np.zeros(1), 1.0)
        >>> start = Normal(np.zeros(1), 3.0)
        >>> chain = aide.mcmc(start, posterior.log_prob, kernel=kernel, num_steps=5)
        >>> chain.simulate(jax.random.key(0)).value.shape
        (1,)
    """
    name = _name_of(algorithm)
    if name in REFUSED:
        raise ValueError(f"blackjax.{name} {REFUSED[name]}. Take one of {_list(REVERSIBLE)}.")
    if name not in REVERSIBLE:
        raise ValueError(
            f"{getattr(algorithm, '__name__', algorithm)} is not among the algorithms of BlackJAX "
            f"that are known to be reversible ({_list(REVERSIBLE)}). If it is, wrap a function "
            "step(key, log_density, x) as aide.kernels.Kernel(step, reversible=True); "
            "aide.check_kernel(key, kernel, log_density, start) tests whether it is."
        )
    if name == "irmh" and settings.get("proposal_logdensity_fn") is None:
        raise ValueError(
            "blackjax.irmh without proposal_logdensity_fn treats its proposals as symmetric, which "
            "independent ones are not: give proposal_logdensity_fn(old, new), the log "
            "density of the second state."
        )
    build = getattr(algorithm, "differentiable", algorithm)
    try:
        build(lambda x: jnp.zeros(()), **settings)
    except TypeError as error:
        raise TypeError(f"blackjax.{name}: {error}.") from None
    return BlackjaxKernel(name, settings)


def nuts(parameters: Mapping[str, Any], max_depth: int) -> Nuts:
    """NUTS with step size and metric of a finished warm-up, for learned meta-inference.

    The law is that of `blackjax.nuts` with `max_num_doublings=max_depth`.

    Args:
        parameters: The parameters from `blackjax.window_adaptation(blackjax.nuts, ...).run(...)`:
            `step_size` and `inverse_mass_matrix`.
        max_depth: Largest number of doublings, as in `aide.kernels.Nuts`.

    Returns:
        The kernel, which `aide.refine` can learn to walk back.

    Example:
        >>> found = {"step_size": 0.5, "inverse_mass_matrix": np.ones(2)}  # of a warm-up
        >>> aide.blackjax.nuts(found, max_depth=4).max_depth
        4
    """
    step_size, metric = float(parameters["step_size"]), parameters["inverse_mass_matrix"]
    return Nuts(step_size, max_depth, np.asarray(metric, np.float64), "numpyro")


def approximation(state: Approximation, label: str = "") -> Tractable:
    r"""A fitted approximation of BlackJAX as an algorithm with a known density.

    Mean-field and full-rank fits and Pathfinder are one Gaussian each. A multi-path Pathfinder is
    the mixture of its paths' Gaussians with equal weights, *before* its importance resampling,
    which has no density (`aide.sir` with the mixture as its proposal measures that). Values have
    the structure of the position that was fitted.

    Args:
        state: The first part of the result of `blackjax.pathfinder.approximate` or
            `multipathfinder(...).approximate`, or the last state of a variational fit.
        label: A name for tables.

    Returns:
        The fit as a target with a known density.

    Example:
        >>> import blackjax, optax
        >>> vi = blackjax.meanfield_vi(Normal(np.zeros(2), 1.0).log_prob, optax.adam(0.01), 10)
        >>> fit = aide.blackjax.approximation(vi.init(jnp.zeros(2)))
        >>> fit.simulate(jax.random.key(0)).value.shape
        (2,)
    """
    if isinstance(state, MFVIState):
        scales = jnp.exp(ravel_pytree(state.rho)[0])
        return Tractable.of(Gaussian(_plain(state.mu), np.asarray(scales)), label or "mean-field")
    if isinstance(state, FRVIState):
        return Tractable.of(_full_rank(state), label or "full-rank")
    if isinstance(state, PathfinderState):
        return Tractable.of(_of_path(state), label or "Pathfinder")
    if isinstance(state, MultipathfinderState):
        num_paths = len(state.logp)
        pick = lambda k: jax.tree.map(lambda leaf: leaf[k], state.path_states)
        parts = [_of_path(pick(k)) for k in range(num_paths)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
        return Tractable.of(GaussianMixture(stacked, num_paths), label or "multi-path Pathfinder")
    raise TypeError(
        "approximation takes a state of blackjax.meanfield_vi, fullrank_vi, pathfinder or "
        f"multipathfinder, got {type(state).__name__}. Draws of a sampler have no density: they "
        "are a gold standard, aide.blackjax.reference_draws(states, log_density); a chain is "
        "measured by aide.mcmc(kernel=aide.blackjax.kernel(...))."
    )


@keywords("aide.blackjax.reference_draws")
def reference_draws(
    states: Any, log_density: LogDensity, *, chain_axis: int | None = None, label: str = ""
) -> ReferenceDraws:
    """States of `blackjax.nuts`, `hmc` and similar samplers as a gold standard.

    The states hold their log density, which must be `log_density` up to a constant: a sign error, a
    missing Jacobian or another model is an error here.

    Args:
        states: The states that `jax.lax.scan` stacked, without warm-up: `position` and
            `logdensity` with a leading axis of draws, or two axes.
        log_density: The sampler's log density, for example `log_joint` of a posterior of `aide`.
        chain_axis: 0 if the leading axes are (chain, draw), 1 if they are (draw, chain), as when
            `vmap` was inside of `scan`.
        label: A name for tables.

    Returns:
        The draws with their density, as a gold standard.

    Example:
        >>> import blackjax
        >>> log_density = lambda x: -0.5 * jnp.sum(x**2)
        >>> sampler = blackjax.mala(log_density, step_size=0.3)
        >>> def step(state, key):
        ...     state, _ = sampler.step(key, state)
        ...     return state, state
        ...
        >>> keys = jax.random.split(jax.random.key(0), 200)
        >>> _, states = jax.lax.scan(step, sampler.init(jnp.zeros(1)), keys)
        >>> aide.blackjax.reference_draws(states, log_density).draws.shape  # one chain
        (1, 200, 1)
    """
    logs = np.asarray(states.logdensity, np.float64)
    if logs.ndim not in (1, 2) or (logs.ndim == 2) != (chain_axis is not None):
        raise ValueError(
            f"states have the leading axes {logs.shape}: pass one axis of draws, or two with "
            "chain_axis=0 for (chain, draw), chain_axis=1 for (draw, chain)."
        )
    position = _plain(states.position)
    if chain_axis == 1:
        position, logs = jax.tree.map(lambda a: np.swapaxes(a, 0, 1), (position, logs))
    found = ReferenceDraws(
        position, log_density, has_chains=chain_axis is not None, label=label or None
    )
    _check_density(position, logs, log_density)
    return found


def _check_density(position: Value, logs: np.ndarray, log_density: LogDensity) -> None:
    """Raise unless `log_density` is that of the states up to a constant, at 20 of them."""
    flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[logs.ndim :]), position)
    rows = np.linspace(0, logs.size - 1, min(logs.size, 20)).astype(int)
    with jax.enable_x64(True):
        pick = lambda row: jax.tree.map(lambda a: jnp.asarray(a[row]), flat)
        given = np.array([float(np.asarray(log_density(pick(row)))) for row in rows])
    gaps = given - logs.ravel()[rows]
    if not np.ptp(gaps) <= 1e-3 * max(1.0, float(np.abs(logs).max())):  # single precision
        raise ValueError(
            f"log_density is not that of the sampler: at {len(rows)} of the states it "
            f"differs from their own log density by {gaps.min():.4g} to {gaps.max():.4g}, not by a "
            "constant. Look for a sign, a Jacobian, another order of variables or other data."
        )


def _full_rank(state: FRVIState) -> Gaussian:
    """A Gaussian from a factor stored as logs of its diagonal, then the rows below the diagonal."""
    size = ravel_pytree(state.mu)[0].size
    numbers = np.asarray(state.chol_params, np.float64)
    factor = np.diag(np.exp(numbers[:size]))
    factor[np.tril_indices(size, k=-1)] = numbers[size:]
    return Gaussian(_plain(state.mu), factor)


def _of_path(state: PathfinderState) -> Gaussian:
    r"""$N(x + H g, H)$ with the inverse Hessian $H = diag(\alpha) + \beta\gamma\beta^T$."""
    position, unravel = ravel_pytree(_plain(state.position))
    gradient = np.asarray(ravel_pytree(state.grad_position)[0], np.float64)
    alpha, beta, gamma = (np.asarray(a, np.float64) for a in (state.alpha, state.beta, state.gamma))
    inverse_hessian = np.diag(alpha) + beta @ gamma @ beta.T
    with jax.enable_x64(True):
        mean = unravel(jnp.asarray(np.asarray(position) + inverse_hessian @ gradient))
    return Gaussian(_plain(mean), np.linalg.cholesky(inverse_hessian))


def _plain(tree: Value) -> Value:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def _as_setting(value: Any) -> Any:
    """Convert reals to traced numbers in double precision; keep counts and functions."""
    is_real = isinstance(value, float) or (
        isinstance(value, np.ndarray | jax.Array) and jnp.issubdtype(value.dtype, jnp.floating)
    )
    return as_parameter(value) if is_real else value


def _name_of(algorithm: object) -> str:
    names = (*REVERSIBLE, *REFUSED)
    known = (name for name in names if getattr(blackjax, name, None) is algorithm)
    return next(known, "")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)
