"""Segments of an SMC algorithm: shorter versions, prefixes, and runs with diagnostics.

A segment is a move or a sequence of moves (`Steps`). An observed run records for every step
acceptance rates, jumps, weights and ancestors, for `aide.diagnose`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from aide._core.distribution import Distribution
from aide._core.numerics import flat_reals, scaled_exp
from aide._core.types import Key, LogProb, Value
from aide._core.versions import KernelUse, ObservedMove, ObservedSteps, ask
from aide.smc.moves import AbstractMove, WeightedMove
from aide.smc.policy import AbstractResampler
from aide.smc.steps import Steps
from aide.smc.sweep import WeightedParticles, run_segment, total_log_evidence

Segments = tuple[WeightedMove | Steps, ...]


def no_density(value: Value) -> LogProb:
    """Log density 0, for algorithms of checks in whose laws the output's density cancels."""
    return jnp.zeros(())


def count_moves(segments: Segments) -> int:
    """Number of moves in all segments."""
    return sum(_length(segment) for segment in segments)


def shorten_moves(segments: Segments, max_steps: int) -> Segments | None:
    """At most `max_steps` steps per segment, between the same densities; `None` if impossible."""
    found = list[WeightedMove | Steps]()
    for segment in segments:
        short = segment.shortened(max_steps) if isinstance(segment, Steps) else segment
        if short is None:
            return None
        found.append(short)
    return tuple(found)


def first_moves(segments: Segments, max_steps: int) -> Segments:
    """The segments up to the first with more than `max_steps` steps, which is cut."""
    found = list[WeightedMove | Steps]()
    for segment in segments:
        if isinstance(segment, Steps) and segment.num_steps > max_steps:
            return (*found, segment.first(max_steps))
        found.append(segment)
    return tuple(found)


def move_prefixes(segments: Segments) -> Iterator[tuple[str, Segments]]:
    """All prefixes, move by move: the place where each ends, in words, and its segments."""
    for place, segment in enumerate(segments):
        before = segments[:place]
        where = f"move {place + 1} of {len(segments)} ({_name(segment)})"
        if not isinstance(segment, Steps):
            yield where, (*before, segment)
            continue
        for num in range(1, segment.num_steps + 1):
            yield f"{where}, step {num} of {segment.num_steps}", (*before, segment.first(num))


def moves_from(segments: Segments, start: Distribution) -> Segments | None:
    """The moves of an algorithm with another start; `None` if a move cannot tell."""
    found = [ask(AbstractMove, segment, "with_start", start) for segment in segments]
    return None if any(segment is None for segment in found) else tuple(found)


def kernels_in(segments: Segments) -> list[KernelUse]:
    """MCMC kernels with their densities, up to the first move that may change the space."""
    found = list[KernelUse]()
    for segment in segments:
        uses = ask(AbstractMove, segment, "kernels")
        if uses is None:
            break
        found += uses
    return found


def _length(segment: WeightedMove | Steps) -> int:
    return segment.num_steps if isinstance(segment, Steps) else 1


def _name(segment: WeightedMove | Steps) -> str:
    if not isinstance(segment, Steps):
        return type(segment).__name__
    inner = getattr(segment.move_at, "move", segment.move_at)
    kernel = getattr(inner, "kernel", None)
    name = type(inner).__name__
    return f"{name} with {type(kernel).__name__}" if kernel is not None else name


def watch_segments(
    population: WeightedParticles,
    segments: Sequence[tuple[Key, WeightedMove | Steps]],
    resampler: AbstractResampler,
) -> tuple[ObservedSteps, ...]:
    """Observe the start, then every segment, each run with its key, as in the run itself."""
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
    key: Key,
    segment: WeightedMove | Steps,
    resampler: AbstractResampler,
    population: WeightedParticles,
) -> tuple[WeightedParticles, Any, Any]:
    """Run one segment on particles that carry the diagnostics of their last move."""
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
    """A move on pairs (state, diagnostics of the move that led there)."""

    move: Any

    def forward(self, key: Key, x: Any) -> tuple[Any, LogProb]:
        """Move the state; replace the diagnostics."""
        value, log_weight, *shown = _observe(self.move, key, x[0])
        return (value, tuple(shown)), log_weight


def _observe(move: Any, key: Key, x: Value) -> ObservedMove:
    return ask(AbstractMove, move, "observe_move", key, x)


def _summary(population: WeightedParticles) -> ObservedSteps:
    """The diagnostics of a population; means over particles."""
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


def _weights_of(population: WeightedParticles) -> ObservedSteps:
    weights, _ = scaled_exp(population.log_weights)
    num = weights.shape[0]
    ess = None if num == 1 else jnp.sum(weights) ** 2 / (num * jnp.sum(weights**2))
    return ObservedSteps(total_log_evidence(population), ess)


def _follow(
    first_ancestors: Array, ancestors: Array | None, like: Array
) -> tuple[Array, Array | None]:
    """First ancestors of all particles after every step, and the number of different ones."""
    if ancestors is None:
        count = _num_different(first_ancestors)
        return first_ancestors, None if count is None else jnp.full(like.shape, count)

    def step(first_ancestors: Array, row: Array) -> tuple[Array, Array | None]:
        after = first_ancestors[row]
        return after, _num_different(after)

    return jax.lax.scan(step, first_ancestors, ancestors)


def _num_different(first_ancestors: Array) -> Int[Array, ""] | None:
    """Number of different first ancestors; `None` for one particle."""
    num = first_ancestors.shape[0]
    return None if num == 1 else jnp.sum(jnp.zeros(num, bool).at[first_ancestors].set(True))


def _add_step_axis(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)
