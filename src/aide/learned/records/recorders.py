"""Runs that keep the record of every step: Markov chains, and SMC along the path of its output.

Pilots are many such runs, from which a model of the reverse is learned.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.distribution import log_density_of, sample_from
from aide._core.numerics import FlatLayout, as_log
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogProb, Value
from aide.engine.programs.map_runs import map_runs
from aide.kernels.retrace import NO_RECORD
from aide.learned.models.joint import Stored
from aide.learned.records.transitions import StepRecord, Transitions, record_step
from aide.smc.moves import KernelMove
from aide.smc.smc import ALL_ZERO, Smc
from aide.smc.steps import Steps
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
        length = self.transitions.length
        blank = None if length is None else _blank_records(self.transitions, layout)

        def step(x: Array, inputs: Any) -> tuple[Array, tuple[StepRecord, ...]]:
            index, inputs = inputs

            def move(x: Array) -> tuple[Array, tuple[StepRecord, ...]]:
                kernels = self.transitions.kernels(inputs, layout)
                keys = derive_keys(derive(key_steps, index), len(kernels))
                return record_step(keys, kernels, x)

            return self.transitions.if_made(index, move, lambda x: (x, blank), x)

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


SPACING = 0.1
"""Distance of neighbouring grid times, and width of the window around each, as shares of the time.

A choice: laws of a chain change on a logarithmic scale of time.
"""


class PartRecords(NamedTuple):
    """Records of one part of the kernel, [n, G, ...] over pilots and grid times.

    `origin` is the index of the state before among all origins that a kernel weighs (relative to
    the middle one if the kernel mirrors origins); for other kernels, the branch.
    """

    state: Stored
    noise: Stored
    branch: Stored
    origin: Stored
    log_density: Stored
    log_own: Stored


class PilotRuns(NamedTuple):
    """Pilot runs, stacked.

    Attributes:
        parts: Records of every part of the kernel.
        last: Last states, [n, d].
        log_density: Log density of the last states, [n].
        moves: Share of the last half of the transitions in which the state changed, [n].
        log_evidence: Log evidence before every step and at the end, [n, T + 1]; [n, 0] for chains.
        log_weights: Log weights of the path at the same times.
    """

    parts: tuple[PartRecords, ...]
    last: Stored
    log_density: Stored
    moves: Stored
    log_evidence: Stored
    log_weights: Stored

    @property
    def have_weights(self) -> bool:
        """Whether the pilots are runs of an SMC algorithm."""
        return self.log_weights.shape[1] > 0


def time_grid(num_steps: int) -> np.ndarray:
    """Steps 0, 1, …, 19, 20, 22, …: neighbours differ by a tenth or by 1."""
    grid = [0]
    while grid[-1] < num_steps - 1:
        grid.append(min(num_steps - 1, grid[-1] + max(1, int(SPACING * grid[-1]))))
    return np.array(grid)


def nearest(grid: np.ndarray, num_steps: int) -> np.ndarray:
    """For every step, the index of the nearest grid time."""
    return np.abs(np.arange(num_steps)[:, None] - grid).argmin(axis=1).astype(np.int32)


def run_pilots(
    key: Key, recorder: Recorder, num_pilots: int, report: Callable[[int], None]
) -> PilotRuns:
    """Run all pilots; each contributes to a grid time one step from the window around it.

    `report` counts finished pilots.
    """
    num_steps = recorder.transitions.num_steps
    grid = time_grid(num_steps)
    seed = int(jax.random.bits(jax.random.fold_in(key, 0), dtype=jnp.uint32))
    width = np.floor(SPACING * grid).astype(int)
    offset = np.random.default_rng(seed).integers(-width, width + 1, (num_pilots, grid.size))
    times = np.clip(grid + offset, 0, num_steps - 1).astype(np.int32)
    stream = jax.random.fold_in(key, 1)
    rows = (np.arange(num_pilots, dtype=np.uint32), times)
    what = "the algorithm of the pilot runs"
    return map_runs(_pilot, recorder, stream, rows, what=what, report=report)


def _pilot(recorder: Recorder, stream: Key, run: Any, times: Int[Array, " G"]) -> PilotRuns:
    """One pilot as an operation of the engine."""
    transitions = recorder.transitions
    layout, last, trace, *logs, _ = recorder.record(jax.random.fold_in(stream, run))
    before = trace[0].before
    after = jnp.concatenate([before[1:], last[None]])

    def records_at(time: Array) -> tuple[PartRecords, ...]:
        inputs = jax.tree.map(lambda a: jnp.asarray(a)[time], transitions.inputs)
        parts = []
        for number, kernel in enumerate(transitions.kernels(inputs, layout)):
            y = (trace[number + 1].before if number + 1 < len(trace) else after)[time]
            noise, branch = trace[number].noise[time], trace[number].branch[time]
            log_density = kernel.log_density(y)
            undone = kernel.retrace(y[:, None], log_density[None], noise[:, None])
            log_own, origin = undone[3][:, 0], branch
            if kernel.weighs_origins:
                apart = jnp.sum((undone[0][:, :, 0] - trace[number].before[time]) ** 2, axis=1)
                origin = jnp.argmin(jnp.where(log_own == -jnp.inf, jnp.inf, apart))
                origin = origin - kernel.mirrors * (log_own.size // 2)
            own = jax.nn.logsumexp(log_own) if kernel.weighs_origins else log_own[branch]
            parts.append(PartRecords(y, noise, branch, origin, log_density, own))
        return tuple(parts)

    end = transitions.kernels(transitions.last_inputs(), layout)[-1].log_density(last)
    half = jnp.any(after != before, axis=1)[transitions.num_steps // 2 :]
    moves = jnp.mean(half.astype(float))
    return PilotRuns(jax.vmap(records_at)(times), last, end, moves, *logs)


def refuse_dead(num_dead: int, num_pilots: int) -> None:
    """Raise if all particles of some pilot had weight zero."""
    if num_dead:
        raise ValueError(f"in {num_dead} of {num_pilots} pilot runs {ALL_ZERO}")


def check_pilots(pilots: PilotRuns) -> None:
    """Raise if a pilot has no output, a NaN or a step without a record."""
    num = len(pilots.last)
    refuse_dead(int(np.sum((pilots.log_evidence == -np.inf).any(axis=1))), num)
    for part in pilots.parts:
        lost = (part.branch == NO_RECORD).any(axis=1)
        if lost.any():
            raise ValueError(
                f"the kernel drew a noise that is not among the noises of FiniteNoise, in "
                f"{lost.sum()} of {num} pilot chains. List every value the kernel can draw and its "
                "involution can return, exactly (type and rounding included)."
            )
        overflowed = ~np.isfinite(part.state).all(axis=(1, 2))
        if overflowed.any():
            raise ValueError(
                f"the state overflowed in {overflowed.sum()} of {num} pilot chains: the kernel, "
                "which has no accept step, diverges. Give it a smaller step size."
            )
        wrong = np.isnan(part.log_density)
        if wrong.any():
            x = np.array2string(part.state[tuple(np.argwhere(wrong)[0])], threshold=8)
            raise ValueError(
                f"log_density is NaN in {wrong.any(axis=1).sum()} of {num} pilot chains, first at "
                f"x = {x}. It must be a number, or -inf where there is no mass; common causes: "
                "inf - inf or 0 * inf far from the posterior, the log of a negative number."
            )
