r"""Runs of one algorithm, every $\log\xi$ at its outputs, and what the algorithm is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from aide._core.chains import Chains
from aide._core.numerics import row_log_mean_exp
from aide._core.types import Role, Value
from aide.engine.programs.identity import Identity


@dataclass(frozen=True)
class Runs:
    r"""N runs of one algorithm, scored by both, M meta-inference runs each.

    Attributes:
        own: $\log\xi$ of the algorithm that made the output, shape (N, 1 + K): column 0 belongs
            to the trace it really used, the others to `regenerate`. K is M, or M - 1 if looseness
            was not asked for.
        cross: $\log\xi$ of the other algorithm at the same outputs, shape (N, M_other).
        values: The outputs, stacked, or `None`.
        first: The output of the first run, by which an algorithm is recognised, or `None`.
        fingerprints: A number per run that equal outputs share; `None` unless all are reals.
    """

    own: Float[np.ndarray, "N K"]
    cross: Float[np.ndarray, "N M"]
    values: Value = None
    first: Value = None
    fingerprints: np.ndarray | None = None

    @property
    def num_runs(self) -> int:
        """N."""
        return self.own.shape[0]


@dataclass(frozen=True)
class Side(Runs):
    r"""The runs of one of the two algorithms of an estimate, and the facts about it.

    Attributes:
        role: The part it plays.
        num_meta: Its meta-inference runs per output, M.
        name: What it is called.
        log_z: What it claims about $\log Z$ (`None`: nothing).
        tractable: Whether it states that $\xi$ depends on its output alone.
        provenance: How it was made and tested, in words, if it says so.
        doubts: What its tests found against it, in words; `None`: it was not tested.
        chains: Of a fixed list of draws, how they lie: its runs depend on each other.
        identity: What it is; see `aide.engine.programs.identity`.
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
        """The same from `regenerate` alone: low on average. `None` if it was not drawn."""
        number = self.num_meta if num_meta is None else num_meta
        if self.own.shape[1] <= number:
            return None
        return row_log_mean_exp(self.own[:, 1 : number + 1])

    def scored(self, num_meta: int) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ of the other algorithm, whose M it is."""
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


def join(parts: Sequence[Runs]) -> Runs:
    """Runs of the same algorithms, one after another; the fewest own columns win."""
    columns = min(part.own.shape[1] for part in parts)
    values = [part.values for part in parts]
    joined = None
    prints = [part.fingerprints for part in parts if part.fingerprints is not None]
    if all(value is not None for value in values):
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *values)
    return Runs(
        np.concatenate([part.own[:, :columns] for part in parts]),
        np.concatenate([part.cross for part in parts]),
        joined,
        parts[0].first,
        np.concatenate(prints) if len(prints) == len(parts) else None,
    )


@dataclass(frozen=True)
class Kept:
    r"""Runs of one role that are known already. Rows only ever gain columns, and sides rows.

    Column j of run i is a function of (key, role, i, j) alone, so what one call drew is a part of
    what another would draw.

    Attributes:
        own: See `Runs`; NaN where nothing was drawn yet.
        cross: The same.
        num_own: How many columns of `own` each run has.
        num_cross: The same of `cross`.
        values: The outputs of the first runs, stacked, or `None`.
        first: The output of the first run.
        fingerprints: Those of the first runs (see `Runs`), or `None`.
    """

    own: np.ndarray
    cross: np.ndarray
    num_own: np.ndarray
    num_cross: np.ndarray
    values: Any = None
    first: Any = None
    fingerprints: np.ndarray | None = None

    @property
    def num_runs(self) -> int:
        """Runs with at least one column."""
        return self.own.shape[0]

    @property
    def num_values(self) -> int:
        """Runs whose output is kept."""
        return 0 if self.values is None else len(jax.tree.leaves(self.values)[0])

    @property
    def size(self) -> tuple[int, int, int]:
        """How much there is; it grows whenever something is added."""
        return int(self.num_own.sum()), int(self.num_cross.sum()), self.num_values

    @staticmethod
    def of(side: Runs) -> "Kept":
        """All runs of one algorithm, which have the same number of columns."""
        num, own, cross = side.num_runs, side.own.shape[1], side.cross.shape[1]
        counts = np.full(num, own), np.full(num, cross)
        return Kept(side.own, side.cross, *counts, side.values, side.first, side.fingerprints)

    def edges(self) -> Iterable[int]:
        """Numbers of runs at which it changes how much is known."""
        steps = (np.diff(self.num_own) != 0) | (np.diff(self.num_cross) != 0)
        return (*(np.flatnonzero(steps) + 1).tolist(), self.num_runs, self.num_values)

    def side(self, begin: int, end: int) -> Runs | None:
        """What is known of these runs alike; `None` if some of them are not there."""
        if end > self.num_runs or begin >= end:
            return None
        own, cross = self.num_own[begin:end].min(), self.num_cross[begin:end].min()
        values = None
        if end <= self.num_values:
            values = jax.tree.map(lambda a: a[begin:end], self.values)
        first, prints = self.first if begin == 0 else None, self.fingerprints
        prints = None if prints is None or end > prints.size else prints[begin:end]
        return Runs(self.own[begin:end, :own], self.cross[begin:end, :cross], values, first, prints)

    def without_cross(self) -> "Kept":
        """The same for another algorithm on the other side."""
        return replace(
            self, cross=np.empty((self.num_runs, 0)), num_cross=np.zeros(self.num_runs, int)
        )

    def with_runs(self, sides: Sequence[Runs], keep_values: bool) -> "Kept":
        """The same with runs 0, 1, … as these sides have them, where that is more."""
        num = sum(side.num_runs for side in sides)
        rows = max(num, self.num_runs)
        own = _pad(self.own, rows, max([self.own.shape[1], *(s.own.shape[1] for s in sides)]))
        cross = _pad(
            self.cross, rows, max([self.cross.shape[1], *(s.cross.shape[1] for s in sides)])
        )
        num_own, num_cross = (
            np.concatenate([n, np.zeros(rows - n.size, int)])
            for n in (self.num_own, self.num_cross)
        )
        begin = 0
        for side in sides:
            end = begin + side.num_runs
            for table, drawn, new in ((own, num_own, side.own), (cross, num_cross, side.cross)):
                table[begin:end, : new.shape[1]] = new
                drawn[begin:end] = np.maximum(drawn[begin:end], new.shape[1])
            begin = end
        first = self.first if self.first is not None or not sides else sides[0].first
        values = self._values_with(sides) if keep_values else self.values
        prints = [side.fingerprints for side in sides if side.fingerprints is not None]
        new = np.concatenate(prints) if prints and len(prints) == len(sides) else None
        if new is None or (self.fingerprints is not None and self.fingerprints.size >= new.size):
            new = self.fingerprints
        return Kept(own, cross, num_own, num_cross, values, first, new)

    def _values_with(self, sides: Sequence[Runs]) -> Any:
        known = [side.values for side in sides]
        until = next((i for i, values in enumerate(known) if values is None), len(known))
        num = sum(side.num_runs for side in sides[:until])
        if num <= self.num_values:
            return self.values
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *known[:until])


def nothing() -> Kept:
    """No runs."""
    none = np.zeros(0, int)
    return Kept(np.empty((0, 0)), np.empty((0, 0)), none, none)


def _pad(table: np.ndarray, rows: int, columns: int) -> np.ndarray:
    wide = np.full((rows, columns), np.nan)
    wide[: table.shape[0], : table.shape[1]] = table
    return wide
