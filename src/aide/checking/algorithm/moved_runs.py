r"""Law 6 on the runs of `aide.check`: outputs of one version, hidden among moved copies."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import TARGET, Key, Value
from aide.checking.algorithm.laws import Evidence
from aide.checking.algorithm.moved import moved_evidence
from aide.checking.algorithm.region import MOST_REPEATED, OutputLayout, repeated
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import ignore
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import MetaRuns

LAW = 6
"""Number of the law in reports."""
MOST_OUTPUTS = 1000
"""Largest number of outputs that are moved: each costs eight runs of `regenerate`."""
MOST_MOVED_SHARE = 0.25
"""Largest share of the runs whose outputs are moved."""
SINGULAR = 1e10
"""Condition number of correlations above which outputs count as lying on a subspace."""


class Numbers(NamedTuple):
    """Outputs as rows of numbers, and the kind of number in each column.

    Attributes:
        rows: One row per run.
        is_integer: Columns that move by steps of one.
        is_fixed: Columns that do not move: booleans, and reals of few values or with atoms.
    """

    rows: Float[np.ndarray, "n d"]
    is_integer: Bool[np.ndarray, " d"]
    is_fixed: Bool[np.ndarray, " d"]


class _NoNumber(Exception):
    """A moved copy has no log xi."""


def moved_law(
    key: Key,
    algorithm: InferenceAlgorithm,
    pilot: Value,
    values: Value,
    own: Float[np.ndarray, " n"],
    chunk_size: int,
    variant: str,
) -> Evidence:
    r"""Test law 6 on the first different outputs of `values`; `own` is $\log\xi$ of `simulate`.

    `pilot`, outputs of other runs, shows which numbers have a density.
    """
    num_runs = len(own)
    known, numbers = _numbers(pilot, pilot), _numbers(pilot, values)
    chosen = _chosen(numbers, min(MOST_OUTPUTS, int(MOST_MOVED_SHARE * num_runs)))
    numbers, own = numbers._replace(rows=numbers.rows[chosen]), own[chosen]
    why_not = _why_not(known, numbers)
    if why_not:
        return Evidence(LAW, variant, None, why_not, num_runs)
    key_moves, key_runs = jax.random.split(key)
    begin, chunk, runner = 0, Chunk(num_runs, chunk_size), runner_of(algorithm)

    def score(
        rows: Int[np.ndarray, " m"], copies: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, " m"]:
        nonlocal begin
        runs = np.arange(begin, begin + len(rows))
        begin += len(rows)
        moved = _join(values, copies)
        asked = MetaRuns(TARGET, moved, runs, np.zeros(1, int), own=False)
        log_xi = runner.regenerate(key_runs, asked, chunk, ignore)[:, 0]
        bad = np.isnan(log_xi) | (log_xi == np.inf)
        if bad.any():
            row = int(np.argmax(bad))
            x = jax.tree.map(lambda a: np.array2string(a[row], threshold=8), moved)
            raise _NoNumber(
                f"log_xi is {log_xi[row]} at x = {x}, a moved output: -inf is the answer where x "
                "is impossible"
            )
        return log_xi

    seed = int(jax.random.bits(key_moves))
    try:
        found = moved_evidence(seed, numbers.rows, own, score, *numbers[1:])
    except _NoNumber as error:
        return Evidence(LAW, variant, None, str(error), num_runs)
    if found.num == 0:
        words = f"too few of {len(chosen)} different outputs could be moved: raise num_runs"
        return Evidence(LAW, variant, None, words, num_runs)
    words = (
        f"the mean of {found.worst} is {found.seen:.3g} over {found.num} outputs; from xi at their "
        f"moved copies {found.expected:.3g} is expected"
    )
    return Evidence(LAW, variant, found.p_value, words, num_runs)


def _chosen(numbers: Numbers, num: int) -> Int[np.ndarray, " m"]:
    """The first different outputs; outputs of integers alone may repeat."""
    if (numbers.is_integer | numbers.is_fixed).all():
        return np.arange(num)
    return np.sort(np.unique(numbers.rows, axis=0, return_index=True)[1])[:num]


def _numbers(pilot: Value, values: Value) -> Numbers:
    """All numbers of outputs, leaf by leaf; `pilot` decides their kinds."""
    rows, is_integer, is_fixed = [], [], []
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(pilot)]
    unique = _different(np.concatenate([_flat(leaf) for leaf in leaves], axis=1))
    begin = 0
    for leaf, other, kind in zip(
        leaves, jax.tree.leaves(values), OutputLayout.of(pilot).leaves, strict=True
    ):
        end = begin + _flat(leaf).shape[1]
        for column in unique[:, begin:end].T:
            integer = leaf.dtype.kind in "iu"
            has_atoms = float(repeated(column[:, None]).mean()) > MOST_REPEATED
            is_integer.append(integer)
            is_fixed.append(not integer and (not kind[2] or has_atoms))
        rows.append(_flat(np.asarray(other)))
        begin = end
    return Numbers(np.concatenate(rows, axis=1), np.array(is_integer), np.array(is_fixed))


def _why_not(known: Numbers, numbers: Numbers) -> str:
    """The reason why these outputs cannot be moved, in words; empty if they can."""
    is_real = ~known.is_integer & ~known.is_fixed
    if known.is_fixed.all():
        return "no number of the output can be moved: real numbers repeat, or are not numbers"
    if not (np.isfinite(known.rows).all() and np.isfinite(numbers.rows).all()):
        return "outputs contain infinite numbers"
    real = _different(known.rows)[:, is_real]
    size = real.shape[1]
    if size and len(real) <= size:
        return f"{len(real)} different pilot outputs are too few for {size} real numbers"
    if size:
        standard = (real - real.mean(axis=0)) / np.where(real.std(axis=0) > 0, real.std(axis=0), 1)
        if np.linalg.cond(standard.T @ standard / len(real)) > SINGULAR:
            return "continuous outputs lie on a subspace: they have no density"
    return ""


def _join(like: Value, rows: Float[np.ndarray, "m d"]) -> Value:
    """Rows of numbers as stacked outputs of the structure, shapes and types of `like`."""
    leaves, tree = jax.tree.flatten(like)
    sizes = [_flat(leaf).shape[1] for leaf in leaves]
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    joined = [
        (part if leaf.dtype.kind == "f" else np.rint(part))
        .astype(leaf.dtype)
        .reshape(-1, *leaf.shape[1:])
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, joined)


def _flat(leaf: np.ndarray) -> Float[np.ndarray, "n d"]:
    return leaf.reshape(len(leaf), -1).astype(np.float64)


def _different(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
    return np.unique(rows, axis=0)
