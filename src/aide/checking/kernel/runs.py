r"""StepRuns of a kernel check: $x \sim s$, one step of the kernel, one of its claimed reversal."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import log_density_of, sample_from
from aide._core.flat_states import flat_reals
from aide._core.numerics import log_ratio
from aide._core.random import run_key
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_scalar
from aide.checking.kernel.adapt import kernel_name
from aide.running.chunks import Chunk
from aide.running.map_runs import PreparedRuns

BLOCK_RUNS, BLOCK_NUMBERS = 2**14, 4_000_000
"""StepRuns, and numbers of their states, kept at a time."""


class Trial(eqx.Module):
    """What is on trial. `reversal` is `None` if the kernel claims to be reversible, or nothing."""

    kernel: Any
    reversal: Any
    log_density: LogDensity
    start: Any


class Points(NamedTuple):
    r"""States, one a row, with $\log\pi$ and $\log w = \log\pi - \log s$.

    Arrays of JAX inside a run, of NumPy outside.
    """

    flat: Any
    log_density: Any
    log_weight: Any


class StepRuns(NamedTuple):
    """Where runs started, where the kernel went, and where the reversal went (or `None`)."""

    before: Points
    after: Points
    reverse: Points | None


class TrialRuns:
    """StepRuns of a trial, traced once; `rows` are about as many as are asked for at a time."""

    def __init__(self, trial: Trial, key: Key, rows: int):
        self._trial, self._key = trial, key
        what = f"{kernel_name(trial.kernel)}, log_density or start"
        number = jax.ShapeDtypeStruct((), jnp.uint32)
        self._runs = PreparedRuns(_one_run, trial, key, (number,), what=what)
        width = max(1, int(np.prod(self._runs.output.before.flat.shape)))
        self._block = max(256, min(BLOCK_RUNS, BLOCK_NUMBERS // width))
        self._chunk = Chunk(min(rows, self._block))

    def blocks(self, runs: range) -> Iterator[StepRuns]:
        """The runs with these numbers, in blocks that fit into memory."""
        for begin in range(runs.start, runs.stop, self._block):
            rows = np.arange(begin, min(begin + self._block, runs.stop), dtype=np.uint32)
            found = self._runs.map(self._key, (rows,), self._chunk)
            _refuse_nan(self._trial, found)
            yield found


def _one_run(trial: Trial, stream: Key, run: Any) -> StepRuns:
    key_x, key_y, key_z = jax.random.split(run_key(stream, run, 0), 3)
    x = jax.tree.map(jnp.asarray, sample_from(trial.start, key_x))
    y = _same_shape(trial.kernel, x, trial.kernel.step(key_y, trial.log_density, x))
    z = None
    if trial.reversal is not None:
        z = _same_shape(trial.reversal, x, trial.reversal.step(key_z, trial.log_density, x))
    return StepRuns(_look(trial, x), _look(trial, y), None if z is None else _look(trial, z))


def _look(trial: Trial, x: Value) -> Points:
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


def _refuse_nan(trial: Trial, runs: StepRuns) -> None:
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
