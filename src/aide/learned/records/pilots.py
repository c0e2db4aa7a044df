"""Pilot chains, from which a model of the reverse is learned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.types import Key
from aide.engine.programs.map_runs import map_runs
from aide.kernels.retrace import NO_RECORD
from aide.learned.models.joint import Stored
from aide.learned.records.recorders import Recorder
from aide.smc.smc import ALL_ZERO

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
