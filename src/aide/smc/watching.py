"""Runs that are watched: per step acceptance, jumps, weights and ancestors, for `aide.diagnose`."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from aide._core.flat_states import flat_reals
from aide._core.numerics import scaled_exp
from aide._core.types import Key, LogProb, Value
from aide._core.versions import ObservedMove, ObservedSteps, ask
from aide.smc.move import AbstractMove, WeightedMove
from aide.smc.moves import Steps
from aide.smc.policy import AbstractResampler
from aide.smc.sweep import Population, run_segment, total_log_evidence


def watch_segments(
    population: Population,
    segments: Sequence[tuple[Key, WeightedMove | Steps]],
    resampler: AbstractResampler,
) -> tuple[ObservedSteps, ...]:
    """The start, then every segment with the key it runs with, as in the run itself."""
    first_ancestors = jnp.arange(population.log_weights.shape[0])
    start = _weights_of(population)._replace(num_ancestors=_num_different(first_ancestors))
    found = [_add_step_axis(start)]
    for key, segment in segments:
        if isinstance(segment, Steps) and not segment.num_steps:
            continue
        population, steps, ancestors = _watch(key, segment, resampler, population)
        first_ancestors, counts = _follow(first_ancestors, ancestors, steps.log_evidence)
        found.append(steps._replace(num_ancestors=counts))
    return tuple(found)


def _watch(
    key: Key, segment: WeightedMove | Steps, resampler: AbstractResampler, population: Population
) -> tuple[Population, Any, Any]:
    """One segment on particles that carry what their last move showed."""
    if isinstance(segment, Steps):
        first = jax.tree.map(lambda a: jnp.asarray(a)[0], segment.inputs)
        move = segment.move_at(first)
        watched = Steps(_WatchedAt(segment.move_at), segment.inputs, segment.num_steps)
    else:
        move, watched = segment, _Watched(segment)
    blank = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(jax.vmap(lambda x: tuple(_observe(move, key, x)[2:])), population.particles),
    )
    start = population._replace(particles=(population.particles, blank))
    after, (steps, ancestors) = run_segment(key, watched, resampler, start, None, _summary)
    if not isinstance(segment, Steps):
        steps, ancestors = _add_step_axis((steps, ancestors))
    return after._replace(particles=after.particles[0]), steps, ancestors


class _WatchedAt(eqx.Module):
    move_at: Any

    def __call__(self, inputs: Any) -> "_Watched":
        return _Watched(self.move_at(inputs))


class _Watched(eqx.Module):
    """A move on pairs (state, what the move that led there showed)."""

    move: Any

    def forward(self, key: Key, x: Any) -> tuple[Any, LogProb]:
        """Move the state; what was shown before is forgotten."""
        value, log_weight, *shown = _observe(self.move, key, x[0])
        return (value, tuple(shown)), log_weight


def _observe(move: Any, key: Key, x: Value) -> ObservedMove:
    return ask(AbstractMove, move, "observe_move", key, x)


def _summary(population: Population) -> ObservedSteps:
    """What is kept of a population; means over particles."""
    values, (acceptance, squared_jump, temperature) = population.particles
    mean = lambda leaf: None if leaf is None else jnp.mean(leaf, axis=0)
    steps = _weights_of(population)._replace(
        acceptance=mean(acceptance),
        temperature=mean(temperature),
        squared_jump=mean(squared_jump),
    )
    if squared_jump is None:
        return steps
    states = jax.vmap(flat_reals)(values)
    return steps._replace(mean=mean(states), mean_square=mean(states**2))


def _weights_of(population: Population) -> ObservedSteps:
    weights, _ = scaled_exp(population.log_weights)
    num = weights.shape[0]
    ess = None if num == 1 else jnp.sum(weights) ** 2 / (num * jnp.sum(weights**2))
    return ObservedSteps(total_log_evidence(population), ess)


def _follow(
    first_ancestors: Array, ancestors: Array | None, like: Array
) -> tuple[Array, Array | None]:
    """First ancestors of all particles after every step, and how many different ones there are."""
    if ancestors is None:
        count = _num_different(first_ancestors)
        return first_ancestors, None if count is None else jnp.full(like.shape, count)

    def step(first_ancestors: Array, row: Array) -> tuple[Array, Array | None]:
        after = first_ancestors[row]
        return after, _num_different(after)

    return jax.lax.scan(step, first_ancestors, ancestors)


def _num_different(first_ancestors: Array) -> Int[Array, ""] | None:
    """How many different numbers there are; `None` for one particle."""
    num = first_ancestors.shape[0]
    return None if num == 1 else jnp.sum(jnp.zeros(num, bool).at[first_ancestors].set(True))


def _add_step_axis(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)
