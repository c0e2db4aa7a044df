"""The forward pass of SMC, free or around a retained trajectory; the walk backwards; paths.

`simulate` runs the pass freely; `regenerate` walks backwards from the output to obtain a retained
trajectory and runs the pass around it. This is generalised conditional SMC, the canonical
meta-inference of SMC (Cusumano-Towner & Mansinghka 2017, Algorithm 1).

Ancestors are stored as slots: with $a_t^i$ the slot of the parent of particle $i$ after step $t$,
the path that ends in slot $b_T$ passes through $b_{t-1} = a_t^{b_t}$.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from aide._core.numerics import as_log, log_mean_exp
from aide._core.random import derive, derive_keys, random_index, zero_of
from aide._core.types import Key, LogProb, Value
from aide.smc.moves import ForwardMove, WeightedMove
from aide.smc.policy import AbstractResampler
from aide.smc.steps import Steps


class WeightedParticles(NamedTuple):
    r"""Weighted particles after some steps.

    $\hat p$ so far is `exp(log_evidence)` times the mean of `exp(log_weights)`. `retained` is the
    slot of the retained particle, `None` in a free run. `possible` becomes false when the retained
    particle's weight is 0 (no free run could keep it) or infinite (no free run could propose it:
    $\gamma(x)\,k(y; x) = 0$); then $\xi$ is 0.
    """

    particles: Value
    log_weights: Float[Array, " num"]
    log_evidence: Float[Array, ""]
    retained: Int[Array, ""] | None
    possible: ArrayLike


class Retained(NamedTuple):
    """The retained state after a move, and the move's log weight (stacked for `Steps`)."""

    value: Value
    log_weight: LogProb


def start(
    key: Key,
    sample: Callable[[Key], Value],
    log_weight: Callable[[Value], LogProb],
    num_particles: int,
    retained: Value | None,
) -> WeightedParticles:
    r"""Draw $x^i \sim k_1$, weigh them; put the retained particle, if any, in a random slot."""
    key_slot, key_particles = derive_keys(key, 2)
    slot, possible = None, True
    if retained is not None and num_particles == 1:
        slot, particles = jnp.zeros((), jnp.int32), _alone(retained, shape_of(sample, key))
    else:
        particles = jax.vmap(sample)(derive_keys(key_particles, num_particles))
    if retained is not None and num_particles > 1:
        slot = random_index(key_slot, num_particles)
        particles = place(particles, slot, retained)
    log_weights = as_log(jax.vmap(log_weight)(particles))
    if slot is not None:
        log_weights, possible = _keep(log_weights, slot, log_weights[slot])
    return WeightedParticles(particles, log_weights, zero_of(key), slot, possible)


def advance(
    key: Key,
    move: ForwardMove,
    resampler: AbstractResampler,
    population: WeightedParticles,
    retained: Retained | None,
) -> tuple[WeightedParticles, Int[Array, " num"] | None]:
    """Resample, move every particle, overwrite the retained slot; also return the ancestors."""
    key_resample, key_move = derive_keys(key, 2)
    done = resampler(key_resample, population.log_weights, population.retained)
    parents = population.particles
    if done.ancestors is not None:
        index = done.ancestors
        parents = jax.tree.map(lambda a: a.at[index].get(mode="promise_in_bounds"), parents)
    num = population.log_weights.shape[0]
    possible = population.possible
    if retained is not None and num == 1:  # there is no other particle
        particles, log_w = jax.tree.map(lambda a: jnp.asarray(a)[None], retained)
    else:
        particles, log_w = jax.vmap(move.forward)(derive_keys(key_move, num), parents)
    log_w = as_log(log_w)
    if retained is not None:
        assert done.retained is not None
        particles = place(particles, done.retained, retained.value)
        log_w, finite = _keep(log_w, done.retained, retained.log_weight)
        possible = possible & finite
    moved = WeightedParticles(
        particles,
        done.log_weights + log_w,
        population.log_evidence + done.log_evidence,
        done.retained,
        possible,
    )
    return moved, done.ancestors


def run_segment(
    key: Key,
    segment: ForwardMove | Steps,
    resampler: AbstractResampler,
    population: WeightedParticles,
    retained: Retained | None,
    keep: Callable[[WeightedParticles], Any] | None = None,
) -> tuple[WeightedParticles, Any]:
    """Run one move or a scan of moves.

    With `keep`, also return `keep(population)` and the ancestors for every step.
    """
    if not isinstance(segment, Steps):
        population, ancestors = advance(key, segment, resampler, population, retained)
        return population, None if keep is None else (keep(population), ancestors)

    def body(population: WeightedParticles, step: Any) -> tuple[WeightedParticles, Any]:
        index, inputs, kept = step
        subkey = derive(key, index)
        after, ancestors = advance(subkey, segment.move_at(inputs), resampler, population, kept)
        after = _same_types(after, population)
        return after, None if keep is None else (keep(after), ancestors)

    steps = (jnp.arange(segment.num_steps, dtype=jnp.uint32), segment.inputs, retained)
    return jax.lax.scan(body, population, steps, length=segment.num_steps)


def walk_back(key: Key, segment: WeightedMove | Steps, y: Value) -> tuple[Value, Retained]:
    """Sample the states before the segment from its backward kernels, starting at `y`."""
    if not isinstance(segment, Steps):
        x, log_w = segment.backward(key, y)
        return x, Retained(y, as_log(log_w))

    def body(y: Value, step: Any) -> tuple[Value, Retained]:
        index, inputs = step
        x, log_w = segment.move_at(inputs).backward(derive(key, index), y)
        return _same_types(x, y), Retained(y, as_log(log_w))

    steps = (jnp.arange(segment.num_steps, dtype=jnp.uint32), segment.inputs)
    return jax.lax.scan(body, y, steps, length=segment.num_steps, reverse=True)


def total_log_evidence(population: WeightedParticles) -> Float[Array, ""]:
    r"""$\log\hat p$ so far, the current weights included."""
    return population.log_evidence + log_mean_exp(population.log_weights)


def shape_of(sample: Callable[[Key], Value], key: Key) -> Value:
    """Shapes and dtypes of a draw.

    `jax.eval_shape` caches by equality of functions, which a distribution may define in its own
    way; a new lambda equals only itself.
    """
    return jax.eval_shape(lambda key: sample(key), key)


def _alone(retained: Value, like: Value) -> Value:
    """The retained particle as the only one, with the dtypes that the start would draw."""
    return jax.tree.map(lambda a, b: jnp.asarray(a).astype(b.dtype)[None], retained, like)


def _keep(log_weights: Array, slot: Int[Array, ""], own: ArrayLike) -> tuple[Array, Array]:
    """Set the retained weight (0 if infinite); return whether the weight is possible."""
    own = jnp.where(own == jnp.inf, -jnp.inf, own)
    return place(log_weights, slot, own), own != -jnp.inf


def place(stack: Value, slot: Int[Array, ""], value: Value) -> Value:
    """Overwrite one slot by a select, which XLA fuses, unlike a scatter."""

    def overwrite(array: Array, new: Array) -> Array:
        here = jnp.arange(array.shape[0]) == slot
        here = here.reshape((-1,) + (1,) * (array.ndim - 1))
        return jnp.where(here, jnp.asarray(new).astype(array.dtype)[None], array)

    return jax.tree.map(overwrite, stack, value)


def _same_types(after: Value, before: Value) -> Value:
    """Keep dtypes through a scan; raise if structure or shapes change."""
    if jax.tree.structure(after) != jax.tree.structure(before) or any(
        jnp.shape(a) != jnp.shape(b)
        for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True)
    ):
        raise ValueError(
            "a move inside Steps changed the structure or shape of its state. Moves between "
            "different spaces must be listed one by one in `moves`, not inside Steps."
        )
    return jax.tree.map(lambda a, b: jnp.asarray(a).astype(jnp.asarray(b).dtype), after, before)


class RecordedRun(NamedTuple):
    """A free run with all its populations.

    Attributes:
        populations: Populations at the start and after each step, stacked; `retained` holds the
            slots of the path that ends in the output.
        path: The particles of that path, stacked in the same way.
    """

    populations: WeightedParticles
    path: Value


def record_path(
    first: WeightedParticles, segments: list[tuple[WeightedParticles, Array | None]], chosen: Any
) -> RecordedRun:
    """Join the populations that `run_segment` returned, and follow the output's path.

    Args:
        first: The population at the start.
        segments: Populations after each step, stacked, and their ancestors.
        chosen: The slot of the output.
    """
    stacks = [jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], first)]
    stacks += [populations for populations, _ in segments]
    populations = jax.tree.map(lambda *parts: jnp.concatenate(parts), *stacks)
    slots = jnp.asarray(chosen, jnp.int32)[None]
    for after, ancestors in reversed(segments):
        num_steps = after.log_weights.shape[0]
        slots = jnp.concatenate([slots_of_path(ancestors, slots[0], num_steps + 1), slots[1:]])
    path = take_path(populations.particles, slots)
    return RecordedRun(populations._replace(retained=slots), path)


def slots_of_path(
    ancestors: Int[Array, "steps num"] | None, chosen: Any, num_states: int
) -> Int[Array, " states"]:
    """The slots of `num_states` successive states, the last of which is in slot `chosen`.

    `ancestors` are those of the steps between the states, `None` if no step resampled.
    """
    if ancestors is None:
        return jnp.full((num_states,), chosen)

    def parent(slot: Array, row: Array) -> tuple[Array, Array]:
        before = row[slot]
        return before, before

    last = jnp.asarray(chosen, ancestors.dtype)
    _, earlier = jax.lax.scan(parent, last, ancestors, reverse=True)
    return jnp.concatenate([earlier, last[None]])


def take_path(states: Value, slots: Int[Array, " states"]) -> Value:
    """Take one particle of every population."""
    return jax.tree.map(lambda a: jax.vmap(lambda row, slot: row[slot])(a, slots), states)
