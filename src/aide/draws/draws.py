r"""What the draw stage leaves: every $\log\xi$, and the outputs if they were kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.identity import Identity
from aide._core.numerics import row_log_mean_exp


@dataclass(frozen=True)
class Side:
    r"""Runs of one algorithm, scored by both. N runs; M meta-inference runs each.

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
    values: Any = None
    first: Any = None
    fingerprints: np.ndarray | None = None

    @property
    def num_runs(self) -> int:
        """N."""
        return self.own.shape[0]

    def kept(self, num_meta: int) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ with its own trace among the M: high on average."""
        return row_log_mean_exp(self.own[:, :num_meta])

    def fresh(self, num_meta: int) -> np.ndarray | None:
        """The same from `regenerate` alone: low on average. `None` if it was not drawn."""
        if self.own.shape[1] <= num_meta:
            return None
        return row_log_mean_exp(self.own[:, 1 : num_meta + 1])

    def scored(self, num_meta: int) -> np.ndarray:
        r"""Per run, $\log\frac1M\sum_m\xi_m$ of the other algorithm."""
        return row_log_mean_exp(self.cross[:, :num_meta])

    def take(self, runs: slice) -> "Side":
        """Some of the runs."""
        values = None if self.values is None else jax.tree.map(lambda a: a[runs], self.values)
        prints = None if self.fingerprints is None else self.fingerprints[runs]
        return Side(self.own[runs], self.cross[runs], values, self.first, prints)


class Range(NamedTuple):
    """Runs that were drawn with one key: numbers `first_run` to `first_run + num_runs - 1`."""

    key_data: tuple[int, ...]
    first_run: int
    num_runs: int

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
        gold: Runs of the gold standard.
        target: Runs of the target.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of the target per output.
        names: What the two algorithms are called.
        log_z: What they claim about $\log Z$ (`None`: nothing).
        tractable: Whether each of them states that $\xi$ depends on its output alone.
        key_data: The words of the key that made them; empty if several did.
        first_run: Index of the first run.
        identities: What the two algorithms are; see `aide._core.identity`.
        pooled: Of concatenated draws, the runs that went into them.
    """

    gold: Side
    target: Side
    num_meta_gold: int
    num_meta_target: int
    names: tuple[str, str] = ("gold", "target")
    log_z: tuple[float | None, float | None] = (None, None)
    tractable: tuple[bool, bool] = (False, False)
    key_data: tuple[int, ...] = ()
    first_run: int = 0
    identities: tuple[Identity | None, Identity | None] = (None, None)
    pooled: tuple[Range, ...] = ()

    @property
    def same_algorithm(self) -> bool:
        """Whether gold and target are known to be one and the same algorithm."""
        gold, target = self.identities
        if gold is None or target is None or gold.unseen or target.unseen:
            return False
        return gold.digest == target.digest

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The runs these draws hold; empty if nothing is known about their keys."""
        if self.pooled or not self.key_data:
            return self.pooled
        longest = max(self.gold.num_runs, self.target.num_runs)
        return (Range(self.key_data, self.first_run, longest),)

    def without_values(self) -> "Draws":
        """The same without outputs."""
        gold, target = replace(self.gold, values=None), replace(self.target, values=None)
        return replace(self, gold=gold, target=target)


def concatenate(draws: Sequence[Draws]) -> Draws:
    """Pool the runs of several draws of the same pair (other keys, or other ranges of runs)."""
    if not draws:
        raise ValueError("concatenate needs at least one Draws, got an empty list.")
    first = draws[0]
    for index, other in enumerate(draws):
        for field in ("names", "num_meta_gold", "num_meta_target", "log_z"):
            if getattr(other, field) != getattr(first, field):
                raise ValueError(
                    f"draws to concatenate must agree on {field}, got {getattr(first, field)} and "
                    f"{getattr(other, field)}."
                )
        _check_same_algorithms(first, other)
        for earlier in draws[:index]:
            _check_different_runs(other, earlier)
    gold = join([d.gold for d in draws])
    pooled = tuple(part for d in draws for part in d.ranges)
    target = join([d.target for d in draws])
    return replace(first, gold=gold, target=target, key_data=(), pooled=pooled)


def _check_same_algorithms(one: Draws, other: Draws) -> None:
    for role, first, second in zip(
        ("gold", "target"), one.identities, other.identities, strict=True
    ):
        changed = "" if first is None or second is None else first.differences(second)
        if changed:
            raise ValueError(
                f"draws to concatenate must be of the same {role} algorithm, but these differ in "
                f"{changed}. Draw both with the same algorithms and versions."
            )


def _check_different_runs(one: Draws, other: Draws) -> None:
    same = [(a, b) for a in one.ranges for b in other.ranges if a.overlaps(b)]
    if one is other or same:
        a, b = same[0] if same else (Range((), 0, 0), Range((), 0, 0))
        raise ValueError(
            f"these draws hold the same runs (key {a.key_data}, from runs {a.first_run} and "
            f"{b.first_run} on): pooling them would count them twice. Use another key or "
            "another first_run."
        )


def join(sides: Sequence[Side]) -> Side:
    """Runs of the same algorithms, one after another; the fewest own columns win."""
    columns = min(side.own.shape[1] for side in sides)
    values = [side.values for side in sides]
    joined = None
    prints = [side.fingerprints for side in sides if side.fingerprints is not None]
    if all(value is not None for value in values):
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *values)
    return Side(
        np.concatenate([side.own[:, :columns] for side in sides]),
        np.concatenate([side.cross for side in sides]),
        joined,
        sides[0].first,
        np.concatenate(prints) if len(prints) == len(sides) else None,
    )
