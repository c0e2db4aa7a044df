"""A filter of cuthbert, taken apart: the model that it filters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cuthbert.inference import Filter

from aide._core.types import Value
from aide.adapters.cuthbert.laws import (
    ConditionalMoments,
    Discrete,
    Laws,
    LinearGaussian,
    gaussian,
)
from aide.algorithms.state_space import StateSpaceModel
from aide.engine.programs.map_runs import in_double
from aide.problems.distributions import Categorical

NO_DENSITY = {
    "cuthbert.smc": "is made of samplers (init_sample, propagate_sample) without a density",
    "cuthbert.ensemble_kalman": "is made of samplers without a density",
    "cuthbert.gaussian.taylor": "has densities that cannot be sampled",
}
"""Why the model of a filter cannot be measured, by the module that built it."""
SMALLEST = 1e-12
"""Of the scales of a law, relative to the largest: below that it has no density."""


def state_space_model(filtered: Filter, model_inputs: Value) -> StateSpaceModel:
    r"""The model that a filter of cuthbert filters, for particle filters and gold standards.

    Paths are $x_0, \dots, x_T$: cuthbert's first state has no observation. Models of
    `gaussian.kalman`, `gaussian.moments` and `discrete` have laws that can be drawn from and
    scored; the rest is refused with the reason.

    Args:
        filtered: What `build_filter` returned.
        model_inputs: The inputs of `cuthbert.filter`, observations among them, with a leading axis
            of length $T$.
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
            f"a filter of {builder or 'another library'} is not known here: gaussian.kalman, "
            "gaussian.moments and discrete are."
        )
    kind = LinearGaussian if builder.startswith("cuthbert.gaussian.kalman") else ConditionalMoments
    dynamics, observation = given["get_dynamics_params"], given["get_observation_params"]
    laws = kind(dynamics, observation, inputs, filtered.init_prepare())
    start = gaussian(given["m0"], given["chol_P0"])
    _check_laws(laws, start)
    return StateSpaceModel(start, laws.transition, laws.observation, inputs)


def _as_arrays(model_inputs: Value) -> Value:
    """In double precision; all alike in length."""
    arrays = jax.tree.map(np.asarray, model_inputs)
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(arrays)}
    if len(lengths) != 1 or lengths in ({()}, {(0,)}):
        raise ValueError(
            f"model_inputs need one common leading time axis of length 1 or more, got leading "
            f"shapes {sorted(lengths)}."
        )
    return jax.tree.map(lambda a: a.astype(float) if a.dtype.kind == "f" else a, arrays)


def _check_laws(laws: Laws, start: Any) -> None:
    """Every step has a density: no noise is singular, and no observation is missing."""
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
