r"""The result of the draw stage: every $\log\xi$, and the outputs if they were kept.

`Runs` is the one container: its rows only gain columns, its tables only gain rows. A `Side` is
`Runs` with facts about the algorithm that made them; `Draws` holds the two sides of an estimate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.chains import Chains
from aide._core.numerics import row_log_mean_exp
from aide._core.types import GOLD, TARGET, Role, Value
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


MOST_KEPT = 2**26
"""Bytes of outputs of both algorithms up to which they are kept by default: 64 MiB, a choice."""


class Range(NamedTuple):
    """Runs that were drawn with one key: those from `first_run` on, of each algorithm."""

    key_data: tuple[int, ...]
    first_run: int
    num_gold: int
    num_target: int

    @property
    def num_runs(self) -> int:
        """Number of runs of the algorithm with more of them."""
        return max(self.num_gold, self.num_target)

    def numbers(self, role: Role) -> np.ndarray:
        """The indices of one algorithm's runs."""
        return self.first_run + np.arange((self.num_gold, self.num_target)[role])

    def overlaps(self, other: "Range") -> bool:
        """Whether some runs are in both."""
        return (
            self.key_data == other.key_data
            and self.first_run < other.first_run + other.num_runs
            and other.first_run < self.first_run + self.num_runs
        )


@dataclass(frozen=True)
class Draws:
    r"""All runs of an estimate. Make one with `aide.draw`, into numbers with `aide.summarise`.

    Attributes:
        gold: Runs of the gold standard, and facts about it.
        target: Runs of the target, and facts about it.
        key_data: The words of the key of all runs; empty if there were several keys.
        first_run: Index of the first run.
        pooled: For concatenated draws, the ranges of runs of each.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> draws = aide.draw(0, exact, fit, num_gold=50, num_target=80)
        >>> draws.gold.num_runs, draws.target.num_runs
        (50, 80)
    """

    gold: Side
    target: Side
    key_data: tuple[int, ...] = ()
    first_run: int = 0
    pooled: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        for side, role in zip(self.sides, (GOLD, TARGET), strict=True):
            if side.role is not role:
                raise ValueError(
                    f"draws.{role.word} must hold a side of that role, got one of {side.role.word}."
                )

    @property
    def sides(self) -> tuple[Side, Side]:
        """Gold standard and target."""
        return self.gold, self.target

    def side(self, role: Role) -> Side:
        """The side of a role."""
        return self.sides[role]

    @property
    def same_algorithm(self) -> bool:
        """Whether gold and target are known to be the same algorithm."""
        gold, target = self.gold.identity, self.target.identity
        if gold is None or target is None or gold.unseen or target.unseen:
            return False
        return gold.digest == target.digest

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges of these runs; empty if their keys are unknown."""
        if self.pooled or not self.key_data:
            return self.pooled
        return (self._range,)

    def sequences(self, role: Role) -> tuple[np.ndarray, ...] | None:
        """Rows of dependent runs, chain by chain, in order; `None` for independent runs."""
        chains = self.side(role).chains
        if chains is None:
            return None
        return chains.sequences(
            np.concatenate([part.numbers(role) for part in self.pooled or (self._range,)])
        )

    @property
    def _range(self) -> Range:
        gold, target = (side.num_runs for side in self.sides)
        return Range(self.key_data, self.first_run, gold, target)

    def with_runs(self, gold: Runs, target: Runs) -> "Draws":
        """The same algorithms with other runs."""
        return replace(self, gold=self.gold.with_runs(gold), target=self.target.with_runs(target))

    def with_num_meta(self, role: Role, num_meta: int) -> "Draws":
        """The same runs, with fewer meta-inference runs of one algorithm in use."""
        return self.with_side(replace(self.side(role), num_meta=num_meta))

    def with_side(self, side: Side) -> "Draws":
        """The same draws with another side of the role of `side`."""
        return replace(self, gold=side) if side.role is GOLD else replace(self, target=side)

    def keeping(self, keep_values: bool | None) -> "Draws":
        """The same draws, with outputs if wanted; for `None`, up to `MOST_KEPT` bytes."""
        if keep_values is None:
            leaves = [leaf for side in self.sides for leaf in jax.tree.leaves(side.values)]
            keep_values = sum(np.asarray(leaf).nbytes for leaf in leaves) <= MOST_KEPT
        return self if keep_values else self.without_values()

    def without_values(self) -> "Draws":
        """The same draws without outputs."""
        gold, target = (replace(side, values=None) for side in self.sides)
        return replace(self, gold=gold, target=target)


def concatenate(draws: Sequence[Draws]) -> Draws:
    """Pool the runs of several draws of the same pair (other keys, or other ranges of runs).

    Args:
        draws: Draws of one pair of algorithms, with the same numbers of meta-inference runs.

    Returns:
        All runs together, as one `Draws`.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> parts = [aide.draw(key, exact, fit, num_gold=50, num_target=50) for key in (0, 1)]
        >>> aide.engine.concatenate(parts).gold.num_runs
        100
    """
    if not draws:
        raise ValueError("concatenate needs at least one Draws, got an empty list.")
    first = draws[0]
    for index, other in enumerate(draws):
        for role in Role:
            _check_same_side(first.side(role), other.side(role))
        for earlier in draws[:index]:
            _check_different_runs(other, earlier)
    pooled = tuple(part for d in draws for part in d.ranges)
    joined = first.with_runs(join([d.gold for d in draws]), join([d.target for d in draws]))
    return replace(joined, key_data=(), pooled=pooled)


def _check_same_side(one: Side, other: Side) -> None:
    word = one.role.word
    for fact, name in (("name", "name"), ("num_meta", f"num_meta_{word}"), ("log_z", "log_z")):
        if getattr(one, fact) != getattr(other, fact):
            raise ValueError(
                f"draws to concatenate must agree on {name}, got {getattr(one, fact)} and "
                f"{getattr(other, fact)} of the {word} algorithm."
            )
    if one.identity is None or other.identity is None:
        return
    changed = one.identity.differences(other.identity)
    if changed:
        raise ValueError(
            f"draws to concatenate must be of the same {word} algorithm, but these differ in "
            f"{changed}. Draw both with the same algorithms and versions."
        )


def _check_different_runs(one: Draws, other: Draws) -> None:
    same = [(a, b) for a in one.ranges for b in other.ranges if a.overlaps(b)]
    if one is other or same:
        a, b = same[0] if same else (Range((), 0, 0, 0), Range((), 0, 0, 0))
        raise ValueError(
            f"these draws hold the same runs (key {a.key_data}, from runs {a.first_run} and "
            f"{b.first_run} on): pooling them would count them twice. Use another key or "
            "another first_run."
        )
    for role in Role:
        if one.side(role).chains is None:
            continue
        own, others = (np.concatenate([r.numbers(role) for r in d.ranges]) for d in (one, other))
        if np.isin(own, others).any():
            raise ValueError(
                f"both hold the same draws of the {role.word} algorithm ({one.side(role).name}), a "
                "fixed list: run i takes the same draw with every key. Use another first_run."
            )
