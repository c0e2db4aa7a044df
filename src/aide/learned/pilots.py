"""Pilot chains: what a model of the reverse is learned from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.numerics import as_log
from aide._core.random import derive_keys
from aide._core.types import Key
from aide.learned.flat import Layout
from aide.learned.joint import Stored
from aide.learned.transitions import Kept, Transitions, run_chain
from aide.running.map_runs import map_runs

SPACING = 0.1
"""Grid times lie this far apart, relative to their size; so wide is the window around each."""


class Traced(NamedTuple):
    """A run and its records: of every part of the kernel, stacked over steps.

    `log_evidence` is the log evidence before every step and in the end, [T + 1]; empty for a chain.
    `log_weights` are those of the path at the same times; `populations` are those of SMC.
    """

    layout: Layout
    last: Any
    trace: tuple[Kept, ...]
    log_evidence: Any
    log_weights: Any
    populations: Any = None


class ChainRun(eqx.Module):
    """A Markov chain as pilot."""

    transitions: Transitions

    def traced(self, key: Key) -> Traced:
        """Run once."""
        key_start, key_steps = derive_keys(key, 2)
        layout, last, trace = run_chain(key_start, key_steps, self.transitions)
        return Traced(layout, last, trace, jnp.zeros(0), jnp.zeros(0))


class PartRecords(NamedTuple):
    """Records of one part of the kernel, [n, G, ...] over pilots and grid times."""

    state: Stored
    noise: Stored
    branch: Stored
    log_density: Stored
    log_own: Stored


class Pilots(NamedTuple):
    """All pilots.

    Attributes:
        parts: Records of every part of the kernel.
        last: Last states, [n, d].
        log_density: Log density of the last states, [n].
        moves: Share of the last half of the transitions in which the state changed, [n].
        log_evidence: See `Traced`; [n, T + 1] or [n, 0].
        log_weights: The same.
    """

    parts: tuple[PartRecords, ...]
    last: Stored
    log_density: Stored
    moves: Stored
    log_evidence: Stored
    log_weights: Stored


def time_grid(num_steps: int) -> np.ndarray:
    """Steps 0, 1, …, 19, 20, 22, …: neighbours differ by a tenth or by 1."""
    grid = [0]
    while grid[-1] < num_steps - 1:
        grid.append(min(num_steps - 1, grid[-1] + max(1, int(SPACING * grid[-1]))))
    return np.array(grid)


def nearest(grid: np.ndarray, num_steps: int) -> np.ndarray:
    """For every step, the index of the nearest grid time."""
    return np.abs(np.arange(num_steps)[:, None] - grid).argmin(axis=1).astype(np.int32)


def run_pilots(key: Any, runner: Any, num_pilots: int, report: Callable[[int], None]) -> Pilots:
    """Run all pilots; each contributes to a grid time one step from the window around it.

    `runner` has `transitions` and `traced(key)`; `report` counts finished pilots.
    """
    num_steps = runner.transitions.num_steps
    grid = time_grid(num_steps)
    seed = int(jax.random.bits(jax.random.fold_in(key, 0), dtype=jnp.uint32))
    width = np.floor(SPACING * grid).astype(int)
    offset = np.random.default_rng(seed).integers(-width, width + 1, (num_pilots, grid.size))
    times = np.clip(grid + offset, 0, num_steps - 1).astype(np.int32)
    stream = jax.random.fold_in(key, 1)
    rows = (np.arange(num_pilots, dtype=np.uint32), times)
    what = "the algorithm of the pilot runs"
    return map_runs(_pilot, runner, stream, rows, what=what, report=report)


def _pilot(runner: Any, stream: Any, run: Any, times: Int[Array, " G"]) -> Pilots:
    """One pilot as an operation of the engine."""
    transitions = runner.transitions
    layout, last, trace, *logs, _ = runner.traced(jax.random.fold_in(stream, run))
    before = trace[0].before
    after = jnp.concatenate([before[1:], last[None]])

    def records_at(time: Array) -> tuple[PartRecords, ...]:
        inputs = jax.tree.map(lambda a: jnp.asarray(a)[time], transitions.inputs)
        parts = []
        for number, kernel in enumerate(transitions.kernels(inputs, layout)):
            y = (trace[number + 1].before if number + 1 < len(trace) else after)[time]
            noise, branch = trace[number].noise[time], trace[number].branch[time]
            log_density = kernel.log_density(y)
            log_own = kernel.retrace(y[:, None], log_density[None], noise[:, None])[3]
            parts.append(PartRecords(y, noise, branch, log_density, log_own[branch, 0]))
        return tuple(parts)

    end = transitions.kernels(transitions.last_inputs(), layout)[-1].log_density(last)
    half = jnp.any(after != before, axis=1)[transitions.num_steps // 2 :]
    moves = jnp.mean(half.astype(float))
    return Pilots(jax.vmap(records_at)(times), last, end, moves, *logs)


def evaluate_log_density(log_density: Any, example: Any, states: np.ndarray) -> np.ndarray:
    """The log density of many flat states; NaN is an error."""
    with jax.enable_x64(True):
        layout = Layout(example)
        evaluate = lambda x: as_log(log_density(layout.unravel(x)))
        values = np.asarray(jax.jit(jax.vmap(evaluate))(states))
    if np.isnan(values).any():
        worst = states[np.isnan(values)][0]
        raise ValueError(
            f"log_density is NaN at {worst}. It must be a number, or -inf where there is no mass."
        )
    return values
