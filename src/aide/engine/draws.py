r"""The result of the draw stage: every $\log\xi$, and the outputs if they were kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.engine.runs import Runs, Side, join

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
