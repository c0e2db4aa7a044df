r"""Runs of a kernel check: $x \sim s$, one step of the kernel, one of its reversal; their weights.

From the weights `StartQuality` says whether the start is close enough to the density for a test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import log_density_of, sample_from
from aide._core.numerics import flat_reals, log_ratio
from aide._core.random import run_key
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_scalar
from aide.checking.kernel.adapt import kernel_name
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import PreparedRuns
from aide.estimation.interval import pareto_shape

BLOCK_RUNS = 2**14
"""Largest number of runs in memory at a time."""
BLOCK_NUMBERS = 4_000_000
"""Largest number of numbers of their states in memory at a time: 32 MB."""
MIN_EFFECTIVE = 200.0
"""Least effective number of runs for a pass: fewer would show little."""
TOO_HEAVY = 0.7
"""Pareto shape of the weights above which their mean is unreliable (Vehtari et al. 2024)."""
MOST_UNCOVERED = 0.01
"""Largest share of steps to places beyond all draws of the start, for a pass."""


class KernelTrial(eqx.Module):
    """The kernel, density and start of a check; `reversal` is `None` without another kernel."""

    kernel: Any
    reversal: Any
    log_density: LogDensity
    start: Any


class Points(NamedTuple):
    r"""States, one a row, with $\log\pi$ and $\log w = \log\pi - \log s$.

    Arrays are JAX's inside a run, NumPy's outside.
    """

    flat: Any
    log_density: Any
    log_weight: Any


class StepRuns(NamedTuple):
    """States at the start, after the kernel, and after the reversal (or `None`)."""

    before: Points
    after: Points
    reverse: Points | None


class TrialRuns:
    """Runs of a trial, traced once; about `rows` of them are asked for at a time."""

    def __init__(self, trial: KernelTrial, key: Key, rows: int):
        self._trial, self._key = trial, key
        what = f"{kernel_name(trial.kernel)}, log_density or start"
        number = jax.ShapeDtypeStruct((), jnp.uint32)
        self._runs = PreparedRuns(_one_run, trial, key, (number,), what=what)
        width = max(1, int(np.prod(self._runs.output.before.flat.shape)))
        self._block = max(256, min(BLOCK_RUNS, BLOCK_NUMBERS // width))
        self._chunk = Chunk(min(rows, self._block))

    def blocks(self, runs: range) -> Iterator[StepRuns]:
        """The runs with these indices, in blocks that fit into memory."""
        for begin in range(runs.start, runs.stop, self._block):
            rows = np.arange(begin, min(begin + self._block, runs.stop), dtype=np.uint32)
            found = self._runs.map(self._key, (rows,), self._chunk)
            _refuse_nan(self._trial, found)
            yield found


def _one_run(trial: KernelTrial, stream: Key, run: Any) -> StepRuns:
    key_x, key_y, key_z = jax.random.split(run_key(stream, run, 0), 3)
    x = jax.tree.map(jnp.asarray, sample_from(trial.start, key_x))
    y = _same_shape(trial.kernel, x, trial.kernel.step(key_y, trial.log_density, x))
    z = None
    if trial.reversal is not None:
        z = _same_shape(trial.reversal, x, trial.reversal.step(key_z, trial.log_density, x))
    return StepRuns(_look(trial, x), _look(trial, y), None if z is None else _look(trial, z))


def _look(trial: KernelTrial, x: Value) -> Points:
    log_p = jnp.asarray(check_scalar("log_density", trial.log_density(x)), float)
    log_w = log_ratio(log_p, log_density_of(trial.start, x))
    return Points(flat_reals(x), log_p, log_w)


def _same_shape(kernel: Any, x: Value, y: Value) -> Value:
    y = jax.tree.map(jnp.asarray, y)
    shapes = [jax.tree.map(lambda a: a.shape, tree) for tree in (x, y)]
    if jax.tree.structure(x) != jax.tree.structure(y) or shapes[0] != shapes[1]:
        raise ValueError(
            f"{kernel_name(kernel)} must return a state like the one it was given, {shapes[0]}, "
            f"got {shapes[1]}."
        )
    return jax.tree.map(lambda new, old: new.astype(old.dtype), y, x)


def _refuse_nan(trial: KernelTrial, runs: StepRuns) -> None:
    start = runs.before
    possible = start.log_weight > -np.inf
    wrong = np.isnan(start.log_weight) | np.isnan(start.log_density)
    if wrong.any():
        _raise("log_density or the density of start is nan", start, wrong)
    for kernel, points in ((trial.kernel, runs.after), (trial.reversal, runs.reverse)):
        if points is None:
            continue
        lost = np.isnan(points.flat).any(axis=1) & possible
        if lost.any():
            _raise(f"{kernel_name(kernel)} stepped to nan", start, lost)
        lost = np.isnan(points.log_weight) & possible
        if lost.any():
            _raise("log_density or the density of start is nan after a step", points, lost)


def _raise(what: str, points: Points, wrong: np.ndarray) -> None:
    x = np.array2string(points.flat[np.argmax(wrong)], threshold=8)
    raise ValueError(
        f"{what} in {int(wrong.sum())} of {wrong.size} runs, first at x = {x}. A log density may "
        "be -inf outside its support, never nan."
    )


@dataclass(frozen=True)
class StartQuality:
    r"""Properties of the start, from the weights $w = \pi/s$.

    Attributes:
        effective_runs: $(\sum w)^2 / \sum w^2$.
        tail: Pareto shape $k$ of the weights.
        uncovered: Share of the steps that end where $\pi/s$ is larger than at any start.
        moved: Share of the steps that changed the state.
    """

    effective_runs: float
    tail: float
    uncovered: float
    moved: float

    @property
    def flaw(self) -> str | None:
        """Why a pass from this start would show little, in words; `None` without a flaw."""
        if self.uncovered > MOST_UNCOVERED:
            return (
                f"{self.uncovered:.1%} of the kernel's steps end where the density is larger, "
                "relative to the start, than at any of the draws of the start"
            )
        if self.tail > TOO_HEAVY:
            return f"the weights density/start are heavy-tailed (Pareto k = {self.tail:.2f})"
        if self.effective_runs < MIN_EFFECTIVE:
            return f"the runs are worth only {self.effective_runs:.0f} draws from the density"
        return None


class Weights:
    """Collects the weights of fresh runs."""

    def __init__(self) -> None:
        self.log_before: list[np.ndarray] = []
        self.log_after: list[np.ndarray] = []
        self.moved: list[np.ndarray] = []

    def add(self, runs: StepRuns) -> None:
        """Add the weights of fresh runs."""
        self.log_before.append(runs.before.log_weight)
        self.log_after.append(runs.after.log_weight)
        self.moved.append((runs.before.flat != runs.after.flat).any(axis=1))

    def start(self) -> StartQuality:
        """The quality of the start, from all weights."""
        before, after = np.concatenate(self.log_before), np.concatenate(self.log_after)
        peak = before.max()
        weights = np.exp(before - peak)
        weights /= weights.sum()
        tail = pareto_shape(weights) if np.unique(weights).size > 50 else -np.inf
        beyond = after > peak + 1e-9 * max(1.0, abs(peak))
        return StartQuality(
            effective_runs=float(1 / (weights**2).sum()),
            tail=float(tail),
            uncovered=float(weights @ beyond),
            moved=float(weights @ np.concatenate(self.moved)),
        )
