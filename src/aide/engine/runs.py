r"""Runs of one algorithm, every $\log\xi$ at its outputs, and facts about the algorithm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

import jax
import numpy as np
from jaxtyping import Float

from aide._core.chains import Chains
from aide._core.numerics import row_log_mean_exp
from aide._core.types import Role, Value
from aide.engine.programs.identity import Identity


@dataclass(frozen=True)
class Runs:
    r"""Runs of one algorithm, scored by both. Rows only gain columns, and tables only gain rows.

    Column j of run i is a function of (key, role, i, j) alone, so the draws of one call are part of
    those of another. A score is never NaN: NaN stands for scores that were not drawn yet, at the
    end of a row.

    Attributes:
        own: $\log\xi$ of the algorithm that made the output, shape (N, 1 + K): column 0 belongs
            to the run's own trace, the others to `regenerate`. In an estimate K is M, or
            M - 1 without a measurement of looseness.
        cross: $\log\xi$ of the other algorithm at the same outputs, shape (N, M_other).
        values: The outputs of the first runs (in an estimate: of all), stacked, or `None`.
        first: The output of the first run, by which an algorithm is recognised, or `None`.
        fingerprints: A number for each of the first runs that equal outputs share; `None` unless
            all numbers are reals.
    """

    own: Float[np.ndarray, "N K"]
    cross: Float[np.ndarray, "N M"]
    values: Value = None
    first: Value = None
    fingerprints: np.ndarray | None = None

    @property
    def num_runs(self) -> int:
        """N: runs with at least one score."""
        return self.own.shape[0]

    @property
    def num_own(self) -> np.ndarray:
        """Number of columns of `own` of each run."""
        return np.sum(~np.isnan(self.own), axis=1)

    @property
    def num_cross(self) -> np.ndarray:
        """Number of columns of `cross` of each run."""
        return np.sum(~np.isnan(self.cross), axis=1)

    @property
    def num_values(self) -> int:
        """Number of runs whose output is kept."""
        return 0 if self.values is None else len(jax.tree.leaves(self.values)[0])

    @property
    def size(self) -> tuple[int, int, int]:
        """Numbers of scores and outputs; they grow whenever something is added."""
        return int(self.num_own.sum()), int(self.num_cross.sum()), self.num_values

    def edges(self) -> Iterable[int]:
        """Indices of runs at which the numbers of columns or outputs change."""
        steps = (np.diff(self.num_own) != 0) | (np.diff(self.num_cross) != 0)
        return (*(np.flatnonzero(steps) + 1).tolist(), self.num_runs, self.num_values)

    def part(self, begin: int, end: int) -> "Runs | None":
        """The known columns of runs `begin` to `end`; `None` if some of these are missing."""
        if end > self.num_runs or begin >= end:
            return None
        own, cross = self.num_own[begin:end].min(), self.num_cross[begin:end].min()
        values = None
        if end <= self.num_values:
            values = jax.tree.map(lambda a: a[begin:end], self.values)
        first, prints = self.first if begin == 0 else None, self.fingerprints
        prints = None if prints is None or end > prints.size else prints[begin:end]
        return Runs(self.own[begin:end, :own], self.cross[begin:end, :cross], values, first, prints)

    def without_cross(self) -> "Runs":
        """The same runs, without scores by the other algorithm."""
        none = np.empty((self.num_runs, 0))
        return Runs(self.own, none, self.values, self.first, self.fingerprints)

    def grown(self, parts: Sequence["Runs"], keep_values: bool = True) -> "Runs":
        """The same runs with runs 0, 1, … replaced by those of `parts` where they have more."""
        num = sum(part.num_runs for part in parts)
        own = _joined(self.own, [part.own for part in parts])
        cross = _joined(self.cross, [part.cross for part in parts])
        first = self.first if self.first is not None or not parts else parts[0].first
        known = [part.values for part in parts]
        until = next((i for i, values in enumerate(known) if values is None), len(known))
        values = self.values
        if keep_values and sum(part.num_runs for part in parts[:until]) > self.num_values:
            values = jax.tree.map(lambda *leaves: np.concatenate(leaves), *known[:until])
        found = [part.fingerprints for part in parts if part.fingerprints is not None]
        prints = self.fingerprints
        if len(found) == len(parts) > 0 and (prints is None or prints.size < num):
            prints = np.concatenate(found)
        return Runs(own, cross, values, first, prints)


NO_RUNS = Runs(np.empty((0, 0)), np.empty((0, 0)))
"""Runs of an algorithm before any was made."""


def join(parts: Sequence[Runs]) -> Runs:
    """Runs of the same algorithms, one after another, with the columns that all parts have."""
    joined = NO_RUNS.grown(parts).part(0, sum(part.num_runs for part in parts))
    return NO_RUNS if joined is None else joined


def _joined(table: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
    """A table whose first rows also have the columns of `parts`."""
    rows = max(sum(len(part) for part in parts), len(table))
    wide = np.full((rows, max([table.shape[1], *(part.shape[1] for part in parts)])), np.nan)
    wide[: len(table), : table.shape[1]] = table
    begin = 0
    for part in parts:
        wide[begin : begin + len(part), : part.shape[1]] = part
        begin += len(part)
    return wide


@dataclass(frozen=True)
class Side(Runs):
    r"""The runs of one of the two algorithms of an estimate, and facts about the algorithm.

    Attributes:
        role: The role of the algorithm.
        num_meta: Meta-inference runs per output, M.
        name: The name of the algorithm.
        log_z: The algorithm's claim about $\log Z$ (`None` without a claim).
        tractable: Whether the algorithm states that $\xi$ depends on its output alone.
        provenance: A sentence on how the algorithm was made and tested, if it has one.
        doubts: Results of tests against the algorithm, in words; `None` if it was not tested.
        chains: The chains of a fixed list of draws, whose runs depend on each other.
        identity: The identity of the algorithm; see `aide.engine.programs.identity`.
    """

    role: Role = field(kw_only=True)
    num_meta: int = field(default=1, kw_only=True)
    name: str = field(default="", kw_only=True)
    log_z: float | None = field(default=None, kw_only=True)
    tractable: bool = field(default=False, kw_only=True)
    provenance: str = field(default="", kw_only=True)
    doubts: tuple[str, ...] | None = field(default=None, kw_only=True)
    chains: Chains | None = field(default=None, kw_only=True)
    identity: Identity | None = field(default=None, kw_only=True)

    def kept(self, num_meta: int | None = None) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ with its own trace among the M: high on average."""
        return row_log_mean_exp(self.own[:, : self.num_meta if num_meta is None else num_meta])

    def fresh(self, num_meta: int | None = None) -> np.ndarray | None:
        """The same from `regenerate` alone: low on average. `None` without a last column."""
        number = self.num_meta if num_meta is None else num_meta
        if self.own.shape[1] <= number:
            return None
        return row_log_mean_exp(self.own[:, 1 : number + 1])

    def scored(self, num_meta: int) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ of the other algorithm, with M = `num_meta`."""
        return row_log_mean_exp(self.cross[:, :num_meta])

    def take(self, rows: slice) -> "Side":
        """Some of the runs."""
        values = None if self.values is None else jax.tree.map(lambda a: a[rows], self.values)
        prints = None if self.fingerprints is None else self.fingerprints[rows]
        runs = Runs(self.own[rows], self.cross[rows], values, self.first, prints)
        return self.with_runs(runs)

    def with_runs(self, runs: Runs) -> "Side":
        """The same algorithm with other runs."""
        facts = {name: getattr(self, name) for name in _FACTS}
        return Side(runs.own, runs.cross, runs.values, runs.first, runs.fingerprints, **facts)


_FACTS = tuple(one.name for one in fields(Side) if one.kw_only)
