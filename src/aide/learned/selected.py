"""SMC that keeps the records along the path of the particle it puts out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.distribution import sample_from
from aide._core.numerics import as_log
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogProb, Value
from aide.learned.flat import Layout
from aide.learned.pilots import Traced
from aide.learned.transitions import Kept, Transitions, record_step
from aide.smc.moves import KernelMove, Steps
from aide.smc.smc import Smc, choose
from aide.smc.sweep import Population, advance, start, total_log_evidence


class SmcRun(eqx.Module):
    """An SMC run whose moves are kernels, as pilot and as what a refined algorithm simulates."""

    smc: Smc

    @property
    def transitions(self) -> Transitions:
        """The moves without their weights."""
        (segment,) = self.smc.moves
        assert isinstance(segment, Steps)
        return Transitions(self.smc.initial, segment.move_at, segment.inputs, segment.num_steps)

    def traced(self, key: Key) -> Traced:
        """Run once, with the random numbers of `Smc.simulate`."""
        smc, transitions = self.smc, self.transitions
        key_start, key_moves, key_output = derive_keys(key, 3)
        layout = Layout(blank_state(smc.initial))
        blank = _blank_records(transitions, layout)

        def first(key: Key) -> Any:
            return layout.ravel(sample_from(smc.initial, key)), blank

        log_weight = lambda state: smc.log_first_weight(layout.unravel(state[0]))
        population = start(key_start, first, log_weight, smc.num_particles, None)

        def step(population: Population, inputs: Any) -> tuple[Population, Any]:
            index, inputs = inputs
            move = _Recording(transitions, inputs, layout)
            subkey = derive(derive(key_moves, 0), index)
            before = population
            population, ancestors = advance(subkey, move, smc.resampler, population, None)
            if ancestors is None:
                ancestors = jnp.arange(smc.num_particles, dtype=jnp.int32)
            return population, (population.particles[1], ancestors, before)

        steps = (jnp.arange(transitions.num_steps, dtype=jnp.uint32), transitions.inputs)
        last, (records, ancestors, before) = jax.lax.scan(step, population, steps)
        chosen = jnp.asarray(choose(key_output, last), ancestors.dtype)

        def follow(slot: Array, step: Any) -> tuple[Array, tuple[Any, Array]]:
            records, ancestors = step
            kept = jax.tree.map(lambda a: a[slot], records)
            return ancestors[slot], (kept, ancestors[slot])

        _, (trace, slots) = jax.lax.scan(follow, chosen, (records, ancestors), reverse=True)
        populations = jax.tree.map(
            lambda a, b: jnp.append(a, jnp.asarray(b)[None], axis=0), before, last
        )
        totals = jax.vmap(total_log_evidence)(populations)
        populations = populations._replace(
            particles=populations.particles[0],
            retained=jnp.append(slots, chosen),
            possible=jnp.ones(transitions.num_steps + 1, bool),
        )
        x = last.particles[0][chosen]
        log_weights = self.log_weights(layout, jnp.append(trace[0].before, x[None], axis=0))
        return Traced(layout, x, trace, totals, log_weights, populations)

    def log_weights(self, layout: Layout, states: Array) -> Array:
        """Weights along a path of flat states: at the start and after each move, [T + 1]."""
        transitions = self.transitions
        first = self.smc.log_first_weight(layout.unravel(states[0]))
        weigh = lambda inputs, x: transitions.move_at(inputs).log_weight(layout.unravel(x))
        if transitions.inputs is None:
            later = jax.vmap(lambda x: weigh(None, x))(states[1:])
        else:
            later = jax.vmap(weigh)(transitions.inputs, states[1:])
        return jnp.append(as_log(first), as_log(later))


class _Recording:
    """A move on pairs (flat state, records of the step that led there)."""

    def __init__(self, transitions: Transitions, inputs: Any, layout: Layout):
        self.move: KernelMove = transitions.move_at(inputs)
        self.kernels, self.layout = transitions.kernels(inputs, layout), layout

    def forward(self, key: Key, x: Any) -> tuple[Any, LogProb]:
        # A single kernel uses the key as it would without records: same key, same run.
        num = len(self.kernels)
        keys = [key] if num == 1 else derive_keys(key, num)
        y, kept = record_step(keys, self.kernels, x[0])
        return (y, kept), self.move.log_weight(self.layout.unravel(y))


def blank_state(initial: Any) -> Value:
    """A state of zeros."""
    shapes = jax.eval_shape(lambda: sample_from(initial, jax.random.key(0)))
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _blank_records(transitions: Transitions, layout: Layout) -> tuple[Kept, ...]:
    kernels = transitions.kernels(transitions.last_inputs(), layout)
    keys = jax.random.split(jax.random.key(0), len(kernels))
    _, shapes = jax.eval_shape(lambda: record_step(keys, kernels, layout.flat))
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
