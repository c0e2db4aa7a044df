"""Runs that keep the record of every step: Markov chains, and SMC along the path of its output."""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.distribution import log_density_of, sample_from
from aide._core.flat_states import FlatLayout
from aide._core.numerics import as_log
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogProb, Value
from aide.learned.records.transitions import StepRecord, Transitions, record_step
from aide.smc.moves import KernelMove, Steps
from aide.smc.smc import Smc
from aide.smc.sweep import WeightedParticles, total_log_evidence


class Recording(NamedTuple):
    """A run and its records: of every part of the kernel, stacked over steps.

    `log_evidence` is the log evidence before every step and at the end, [T + 1]; empty for a chain.
    `log_weights` are those of the path at the same times; `populations` are those of SMC.
    """

    layout: FlatLayout
    last: Array
    trace: tuple[StepRecord, ...]
    log_evidence: Array
    log_weights: Array
    populations: WeightedParticles | None = None


class Recorder(Protocol):
    """A run that keeps the records by which it can be retraced."""

    @property
    def transitions(self) -> Transitions:
        """The start and the kernels of the run, without weights."""
        ...

    def record(self, key: Key) -> Recording:
        """Run once."""
        ...


class ChainRecorder(eqx.Module):
    """A Markov chain with its records."""

    transitions: Transitions

    def record(self, key: Key) -> Recording:
        """Run once, with keys 0 and 1 derived from `key`."""
        key_start, key_steps = derive_keys(key, 2)
        first, layout = self.transitions.draw_start(key_start)

        def step(x: Array, inputs: Any) -> tuple[Array, tuple[StepRecord, ...]]:
            index, inputs = inputs
            kernels = self.transitions.kernels(inputs, layout)
            keys = derive_keys(derive(key_steps, index), len(kernels))
            return record_step(keys, kernels, x)

        num = self.transitions.num_steps
        steps = (jnp.arange(num, dtype=jnp.uint32), self.transitions.inputs)
        last, trace = jax.lax.scan(step, first, steps, length=num)
        return Recording(layout, last, trace, jnp.zeros(0), jnp.zeros(0))


class SmcRecorder(eqx.Module):
    """SMC whose moves are kernels, with the records along the path of its output."""

    smc: Smc

    @property
    def transitions(self) -> Transitions:
        """The moves without their weights."""
        (segment,) = self.smc.moves
        assert isinstance(segment, Steps)
        return Transitions.of(self.smc.start, segment)

    def record(self, key: Key) -> Recording:
        """Run once, as `Smc.simulate` with this key, which uses derived keys 0 to 2."""
        layout = FlatLayout(_blank_state(self.smc.start))
        populations, (states, records) = self._on_flat_states(layout).record(key)
        # The record of the first state is blank.
        trace = jax.tree.map(lambda leaf: leaf[1:], records)
        totals = jax.vmap(total_log_evidence)(populations)
        log_weights = self.log_weights(layout, states)
        populations = populations._replace(particles=populations.particles[0])
        return Recording(layout, states[-1], trace, totals, log_weights, populations)

    def log_weights(self, layout: FlatLayout, states: Array) -> Array:
        """Weights along a path of flat states: at the start and after each move, [T + 1]."""
        transitions = self.transitions
        first = self.smc.log_first_weight(layout.unravel(states[0]))
        weigh = lambda inputs, x: transitions.move_at(inputs).log_weight(layout.unravel(x))
        if transitions.inputs is None:
            later = jax.vmap(lambda x: weigh(None, x))(states[1:])
        else:
            later = jax.vmap(weigh)(transitions.inputs, states[1:])
        return jnp.append(as_log(first), as_log(later))

    def _on_flat_states(self, layout: FlatLayout) -> Smc:
        """The same algorithm on pairs (flat state, records of the step that led there)."""
        smc, transitions = self.smc, self.transitions
        state_of = lambda pair: layout.unravel(pair[0])
        first, moves = smc.log_first, _RecordingMoves(transitions, layout)
        return Smc(
            _RecordingStart(smc.start, layout, _blank_records(transitions, layout)),
            (Steps(moves, transitions.inputs, transitions.num_steps),),
            lambda pair: smc.log_joint(state_of(pair)),
            smc.num_particles,
            None if first is None else lambda pair: first(state_of(pair)),
            smc.resampler,
        )


class _RecordingStart:
    """The start with blank records; used while one program is traced, like its layout."""

    def __init__(self, start: Any, layout: FlatLayout, blank: tuple[StepRecord, ...]):
        self.start, self.layout, self.blank = start, layout, blank

    def sample(self, key: Key) -> Any:
        return self.layout.ravel(sample_from(self.start, key)), self.blank

    def log_density(self, pair: Any) -> LogProb:
        return log_density_of(self.start, self.layout.unravel(pair[0]))


class _RecordingMoves:
    def __init__(self, transitions: Transitions, layout: FlatLayout):
        self.transitions, self.layout = transitions, layout

    def __call__(self, inputs: Any) -> "_RecordingMove":
        kernels = self.transitions.kernels(inputs, self.layout)
        return _RecordingMove(self.transitions.move_at(inputs), kernels, self.layout)


class _RecordingMove:
    def __init__(self, move: KernelMove, kernels: list[Any], layout: FlatLayout):
        self.move, self.kernels, self.layout = move, kernels, layout

    def forward(self, key: Key, pair: Any) -> tuple[Any, LogProb]:
        # A single kernel uses the key as the algorithm without records does, for the same run.
        num = len(self.kernels)
        keys = [key] if num == 1 else derive_keys(key, num)
        y, records = record_step(keys, self.kernels, pair[0])
        return (y, records), self.move.log_weight(self.layout.unravel(y))


def _blank_state(start: Any) -> Value:
    shapes = jax.eval_shape(lambda: sample_from(start, jax.random.key(0)))
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _blank_records(transitions: Transitions, layout: FlatLayout) -> tuple[StepRecord, ...]:
    kernels = transitions.kernels(transitions.last_inputs(), layout)
    keys = jax.random.split(jax.random.key(0), len(kernels))
    _, shapes = jax.eval_shape(lambda: record_step(keys, kernels, layout.flat))
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
