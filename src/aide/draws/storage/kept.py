"""Runs that need not be repeated: some may have more meta-runs than others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from aide.draws.sides import Runs


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
