r"""Runs of a kernel check: $x \sim s$, one step of the kernel, one of its claimed reversal."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import log_density_of, sample_from
from aide._core.numerics import log_ratio
from aide._core.random import run_key
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_scalar
from aide.checking.kernel.adapt import kernel_name
from aide.running.programs import get_program, run_chunks

BLOCK_RUNS, BLOCK_NUMBERS = 2**14, 4_000_000
"""Runs, and numbers of their states, kept at a time."""


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


class Runs(NamedTuple):
    """Where runs started, where the kernel went, and where the reversal went (or `None`)."""

    before: Points
    after: Points
    reverse: Points | None


def run_trial(trial: Trial, key: Key, runs: range, chunk: int) -> Iterator[Runs]:
    """The runs with these numbers, in blocks that fit into memory, about `chunk` at a time."""
    try:
        program, arrays = get_program(_one_run, trial, (key, jnp.uint32(0)))
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise TypeError(
            f"{kernel_name(trial.kernel)}, log_density or start is not traceable by JAX: write "
            f"it with jax.numpy and jax.lax. JAX said: {str(error).splitlines()[0]}"
        ) from error
    width = max(1, int(np.prod(program.result.before.flat.shape)))
    block = max(256, min(BLOCK_RUNS, BLOCK_NUMBERS // width))
    size = program.chunk_size(min(chunk, block))
    for begin in range(runs.start, runs.stop, block):
        rows = np.arange(begin, min(begin + block, runs.stop), dtype=np.uint32)
        found = run_chunks(program, arrays, key, (rows,), size, lambda done: None)
        _refuse_nan(trial, found)
        yield found


def _one_run(trial: Trial, stream: Key, run: Any) -> Runs:
    key_x, key_y, key_z = jax.random.split(run_key(stream, run, 0), 3)
    x = jax.tree.map(jnp.asarray, sample_from(trial.start, key_x))
    y = _same_shape(trial.kernel, x, trial.kernel.step(key_y, trial.log_density, x))
    z = None
    if trial.reversal is not None:
        z = _same_shape(trial.reversal, x, trial.reversal.step(key_z, trial.log_density, x))
    return Runs(_look(trial, x), _look(trial, y), None if z is None else _look(trial, z))


def _look(trial: Trial, x: Value) -> Points:
    log_p = jnp.asarray(check_scalar("log_density", trial.log_density(x)), float)
    log_w = log_ratio(log_p, log_density_of(trial.start, x))
    leaves = [jnp.ravel(leaf).astype(float) for leaf in jax.tree.leaves(x)]
    return Points(jnp.concatenate(leaves), log_p, log_w)


def _same_shape(kernel: Any, x: Value, y: Value) -> Value:
    y = jax.tree.map(jnp.asarray, y)
    shapes = [jax.tree.map(lambda a: a.shape, tree) for tree in (x, y)]
    if jax.tree.structure(x) != jax.tree.structure(y) or shapes[0] != shapes[1]:
        raise ValueError(
            f"{kernel_name(kernel)} must return a state like the one it was given, {shapes[0]}, "
            f"got {shapes[1]}."
        )
    return jax.tree.map(lambda new, old: new.astype(old.dtype), y, x)


def _refuse_nan(trial: Trial, runs: Runs) -> None:
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
