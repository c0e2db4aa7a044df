r"""cuthbert: its filters as state-space models, its Gaussian smoothers as targets over paths.

model = aide.cuthbert.state_space_model(filter, model_inputs)
fit = aide.cuthbert.smoothed_paths(filter, smoother, model_inputs)
print(aide.estimate(key, aide.gold_standard(key, model), fit))

A filter is taken apart into the laws of its states and observations, which make the model; a
smoother becomes a law of whole paths. cuthbert's data come with the inputs of the model, one entry
per observation, and its first state $x_0$ has none. A path here is $x_0, \dots, x_T$; inputs have a
leading entry that is not used.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import cuthbert
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cuthbert.inference import Filter, Smoother
from cuthbertlib.linalg import tria
from jaxtyping import Array, Float

from aide._core.random import derive_keys
from aide._core.types import Key, LogProb, Value
from aide.adapters.gaussian import Gaussian
from aide.algorithms.particle_filter import StateSpaceModel
from aide.algorithms.tractable import Tractable
from aide.engine.programs.map_runs import in_double
from aide.problems.distributions import Categorical

__all__ = [
    "SmoothedPaths",
    "smoothed_paths",
    "state_space_model",
]


def gaussian(mean: Array, factor: Array) -> Gaussian:
    """A Gaussian from its mean and any square factor of its covariance."""
    lower = tria(jnp.asarray(factor, float))
    signs = jnp.where(jnp.diagonal(lower) < 0, -1.0, 1.0)
    return Gaussian(jnp.asarray(mean, float), lower * signs)


class Laws(eqx.Module):
    """Transition and observation of a model, from cuthbert's two functions of the inputs.

    Args:
        get_dynamics: The function for the transition.
        get_observation: The function for the observation, which also returns the observation.
        inputs: Inputs of both functions, with a leading axis of $T + 1$ entries.
        state: A state of the filter, which functions for moments take but must not depend on.
    """

    get_dynamics: Callable[..., Any]
    get_observation: Callable[..., Any]
    inputs: Value
    state: Any = None

    @abstractmethod
    def transition(self, x: Array, t: Array | int) -> Any:
        r"""The law of $x_t$ given $x_{t-1} = x$."""

    @abstractmethod
    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t)$; the observation is part of the inputs."""

    def observation(self, x: Array, t: Array | int) -> "Observed":
        r"""The law of the observation of $x_t$."""
        return Observed(self, x, t)

    def inputs_at(self, t: Array | int) -> Value:
        """The inputs of one step."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[t], self.inputs)


class Observed(eqx.Module):
    """The law of the observation of a state; the first state has no observation."""

    laws: Laws
    x: Array
    t: Array | int

    def sample(self, key: Key) -> Value:
        """Raise: cuthbert's functions return the given observation."""
        raise NotImplementedError(
            "observations of a cuthbert model are given with its inputs and cannot be simulated."
        )

    def log_density(self, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t)$, and 0 at $t = 0$."""
        return jnp.where(jnp.asarray(self.t) == 0, 0.0, self.laws.log_likelihood(self.x, inputs))


class LinearGaussian(Laws):
    r"""$x_t \sim N(F x_{t-1} + c, Q)$, $y_t \sim N(H x_t + d, R)$: `cuthbert.gaussian.kalman`."""

    def transition(self, x: Array, t: Array | int) -> Gaussian:
        r"""$N(F x + c, Q)$."""
        matrix, shift, factor = self.get_dynamics(self.inputs_at(t))
        return gaussian(matrix @ x + shift, factor)

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log N(y; H x + d, R)$."""
        matrix, shift, factor, y = self.get_observation(inputs)
        return gaussian(matrix @ x + shift, factor).log_density(jnp.asarray(y, float))


class ConditionalMoments(Laws):
    r"""$x_t \sim N(m(x_{t-1}), C(x_{t-1}))$, and likewise $y_t$: `cuthbert.gaussian.moments`.

    The filter linearises these functions; here they are the model itself.
    """

    def transition(self, x: Array, t: Array | int) -> Gaussian:
        r"""$N(m(x), C(x))$."""
        moments, _ = self.get_dynamics(self.state, self.inputs_at(t))
        return gaussian(*moments(x))

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log N(y; m(x), C(x))$."""
        moments, _, y = self.get_observation(self.state, inputs)
        return gaussian(*moments(x)).log_density(jnp.asarray(y, float))


class Discrete(Laws):
    r"""$P(x_t = j \mid x_{t-1} = i) = A_{ij}$: `cuthbert.discrete`."""

    def transition(self, x: Array, t: Array | int) -> Categorical:
        """The distribution of a row of the matrix."""
        return Categorical(jnp.asarray(self.get_dynamics(self.inputs_at(t)), float)[x])

    def log_likelihood(self, x: Array, inputs: Value) -> LogProb:
        r"""$\log p(y_t \mid x_t = i)$, from its values for all $i$."""
        return jnp.asarray(self.get_observation(inputs), float)[x]


NO_DENSITY = {
    "cuthbert.smc": "is made of samplers (init_sample, propagate_sample) without a density",
    "cuthbert.ensemble_kalman": "is made of samplers without a density",
    "cuthbert.gaussian.taylor": "has densities that cannot be sampled",
}
"""Reasons why the model of a filter cannot be measured, by the module that built the filter."""
SMALLEST = 1e-12
"""Ratio of scales of a law below which it counts as singular: double precision leaves little."""


def state_space_model(filtered: Filter, model_inputs: Value) -> StateSpaceModel:
    r"""The model that a filter of cuthbert filters, for particle filters and gold standards.

    Paths are $x_0, \dots, x_T$: cuthbert's first state has no observation. Models of
    `gaussian.kalman`, `gaussian.moments` and `discrete` have laws that can be sampled and
    scored; other models are refused with the reason.

    Args:
        filtered: A filter from `build_filter`.
        model_inputs: The inputs of `cuthbert.filter`, observations among them, with a leading axis
            of length $T$.

    Returns:
        The model, for `aide.ParticleFilter` and `aide.gold_standard`.

    Example:
        >>> from cuthbert.gaussian import moments
        >>> data = np.array([[0.9], [0.6], [1.2]])
        >>> dynamics = lambda state, y: (lambda x: (0.9 * x, 0.5 * jnp.eye(1)), state.mean)
        >>> observation = lambda state, y: (lambda x: (x, 0.5 * jnp.eye(1)), state.mean, y)
        >>> filtered = moments.build_filter(jnp.ones(1), jnp.eye(1), dynamics, observation)
        >>> model = aide.cuthbert.state_space_model(filtered, data)
        >>> model.num_steps  # the first state has no observation
        4
    """
    if not isinstance(filtered, Filter):
        raise TypeError(f"expected a cuthbert Filter, got {type(filtered).__name__}.")
    return in_double(_model, filtered, model_inputs)


def builder_of(part: Any) -> str:
    """The module whose `build_filter` or `build_smoother` bound this function."""
    return getattr(getattr(part, "func", part), "__module__", "")


def _model(filtered: Filter, model_inputs: Value) -> StateSpaceModel:
    builder = builder_of(filtered.init_prepare)
    for start, reason in NO_DENSITY.items():
        if builder.startswith(start):
            raise ValueError(
                f"a filter of {start} {reason}, so that paths cannot be scored. Build the model "
                "with cuthbert.gaussian.moments, or as an aide.StateSpaceModel."
            )
    given: dict[str, Any] = {}
    for part in (filtered.init_prepare, filtered.filter_prepare, filtered.filter_combine):
        given |= getattr(part, "keywords", {})
    inputs = jax.tree.map(lambda leaf: np.concatenate([leaf[:1], leaf]), _as_arrays(model_inputs))
    if builder.startswith("cuthbert.discrete"):
        laws: Laws = Discrete(given["get_trans_matrix"], given["get_obs_lls"], inputs)
        start = Categorical(jnp.asarray(given["init_dist"], float))
        return StateSpaceModel(start, laws.transition, laws.observation, inputs)
    if not builder.startswith(("cuthbert.gaussian.kalman", "cuthbert.gaussian.moments")):
        raise ValueError(
            f"a filter of {builder or 'another library'} is not supported: gaussian.kalman, "
            "gaussian.moments and discrete are."
        )
    kind = LinearGaussian if builder.startswith("cuthbert.gaussian.kalman") else ConditionalMoments
    dynamics, observation = given["get_dynamics_params"], given["get_observation_params"]
    laws = kind(dynamics, observation, inputs, filtered.init_prepare())
    start = gaussian(given["m0"], given["chol_P0"])
    _check_laws(laws, start)
    return StateSpaceModel(start, laws.transition, laws.observation, inputs)


def _as_arrays(model_inputs: Value) -> Value:
    """Convert inputs to double precision; raise unless their lengths are equal."""
    arrays = jax.tree.map(np.asarray, model_inputs)
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(arrays)}
    if len(lengths) != 1 or lengths in ({()}, {(0,)}):
        raise ValueError(
            f"model_inputs need one common leading time axis of length 1 or more, got leading "
            f"shapes {sorted(lengths)}."
        )
    return jax.tree.map(lambda a: a.astype(float) if a.dtype.kind == "f" else a, arrays)


def _check_laws(laws: Laws, start: Any) -> None:
    """Raise if a step has no density: singular noise, or a missing observation."""
    x, num = jnp.asarray(start.mean), len(jax.tree.leaves(laws.inputs)[0])

    def look(t: Any) -> tuple[Any, Any]:
        scales = jnp.diagonal(laws.transition(x, t).factor)
        inside = jnp.all(scales > SMALLEST * jnp.max(scales))
        return inside, jnp.isfinite(laws.log_likelihood(x, laws.inputs_at(t)))

    moves, seen = (np.asarray(each) for each in jax.vmap(look)(jnp.arange(1, num)))
    if not moves.all():
        raise ValueError(
            f"the noise of the transition to step {1 + int(np.argmin(moves))} is singular: given "
            "one state, the next has no density. Leave out components that others determine."
        )
    if not seen.all():
        raise ValueError(
            f"the observation at step {1 + int(np.argmin(seen))} has no density: it is NaN "
            "(cuthbert's sign of one that is missing), or its noise is singular."
        )


Path = Float[Array, "num_states d"]


class SmoothedPaths(eqx.Module):
    r"""$x_T \sim N(m_T, P_T)$, then backwards $x_t \sim N(g_t + E_t x_{t+1}, D_t D_t^T)$.

    A smoother computes these numbers, and reports the marginals. The law is exact if the model
    is linear and Gaussian, and an approximation where cuthbert linearises.

    Args:
        last: The law of $x_T$.
        shifts: $g_0, \dots, g_{T-1}$.
        gains: $E_t$.
        factors: $D_t$.

    Example:
        >>> ones = np.ones((3, 1, 1))
        >>> parts = {"shifts": np.zeros((3, 1)), "gains": 0.9 * ones, "factors": 0.5 * ones}
        >>> paths = aide.cuthbert.SmoothedPaths(Normal(np.zeros(1), 1.0), **parts)
        >>> paths.sample(jax.random.key(0)).shape
        (4, 1)
    """

    last: Gaussian
    shifts: Float[Array, "num_steps d"]
    gains: Float[Array, "num_steps d d"]
    factors: Float[Array, "num_steps d d"]

    def sample(self, key: Key) -> Path:
        """Draw the last state, then each one given the next."""
        key_last, *keys = derive_keys(key, 1 + len(self.shifts))

        def step(after: Array, given: Any) -> tuple[Array, Array]:
            key, shift, gain, factor = given
            x = gaussian(shift + gain @ after, factor).sample(key)
            return x, x

        end = self.last.sample(key_last)
        given = (jnp.stack(keys), self.shifts, self.gains, self.factors)
        _, before = jax.lax.scan(step, end, given, reverse=True)
        return jnp.concatenate([before, end[None]])

    def log_density(self, path: Path) -> LogProb:
        r"""$\log N(x_T; m_T, P_T) + \sum_t \log N(x_t; g_t + E_t x_{t+1}, D_t D_t^T)$."""

        def one(x: Array, after: Array, shift: Array, gain: Array, factor: Array) -> Array:
            return gaussian(shift + gain @ after, factor).log_density(x)

        each = jax.vmap(one)(path[:-1], path[1:], self.shifts, self.gains, self.factors)
        return self.last.log_density(path[-1]) + jnp.sum(each)


def smoothed_paths(
    filtered: Filter, smoother: Smoother, model_inputs: Value, label: str = ""
) -> Tractable:
    r"""Filter and smooth with cuthbert; return the law of $x_0, \dots, x_T$ as a target.

    Args:
        filtered: A Gaussian filter: `gaussian.kalman`, `gaussian.moments` or `gaussian.taylor`.
        smoother: The smoother for this filter.
        model_inputs: The inputs of `cuthbert.filter`, with a leading axis of length $T$.
        label: A name for tables.

    Returns:
        The law of paths as a target with a known density.

    Example:
        >>> from cuthbert.gaussian import moments
        >>> data = np.array([[0.9], [0.6], [1.2]])
        >>> dynamics = lambda state, y: (lambda x: (0.9 * x, 0.5 * jnp.eye(1)), state.mean)
        >>> observation = lambda state, y: (lambda x: (x, 0.5 * jnp.eye(1)), state.mean, y)
        >>> filtered = moments.build_filter(jnp.ones(1), jnp.eye(1), dynamics, observation)
        >>> smoother = moments.build_smoother(dynamics)
        >>> fit = aide.cuthbert.smoothed_paths(filtered, smoother, data)
        >>> fit.label, fit.log_z
        ("cuthbert's smoother", 0.0)
    """
    for what, part in (("filter", filtered.init_prepare), ("smoother", smoother.smoother_prepare)):
        if not builder_of(part).startswith("cuthbert.gaussian"):
            raise ValueError(
                f"the {what} is of {builder_of(part) or 'another library'}, and only Gaussian ones "
                "give a law of whole paths: cuthbert.gaussian.kalman, moments, taylor."
            )
    paths = in_double(_paths, filtered, smoother, model_inputs)
    return Tractable.of(paths, label or "cuthbert's smoother")


def _paths(filtered: Filter, smoother: Smoother, model_inputs: Value) -> SmoothedPaths:
    filtered = Filter(*map(_promoted_part, filtered))
    smoother = Smoother(*map(_promoted_part, smoother))
    inputs = _promoted(model_inputs)
    states = cuthbert.filter(filtered, inputs, filtered.init_prepare())
    before, last = (
        jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(-1), -1)
    )
    prepare = lambda state, given: smoother.smoother_prepare(state, given).elem
    shifts, gains, factors = jax.vmap(prepare)(before, inputs)
    return SmoothedPaths(gaussian(last.mean, last.chol_cov), shifts, gains, factors)


def _promoted_part(part: Any) -> Any:
    """A function of cuthbert with its bound arguments in double precision."""
    if not isinstance(part, partial):
        return part
    return partial(part.func, **{name: _promoted(value) for name, value in part.keywords.items()})


def _promoted(given: Any) -> Any:
    """Convert arrays, and results of functions, which users often have in single precision."""

    def promote_leaf(leaf: Any) -> Any:
        if isinstance(leaf, bool) or leaf is None:
            return leaf
        if callable(leaf):
            return lambda *args, **options: _promoted(leaf(*args, **options))
        array = jnp.asarray(leaf)
        return array.astype(float) if jnp.issubdtype(array.dtype, jnp.floating) else array

    return jax.tree.map(promote_leaf, given)
