r"""What the draw stage leaves: every $\log\xi$, and the outputs if they were kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from aide._numerics import row_log_mean_exp


@dataclass(frozen=True)
class Side:
    r"""Runs of one algorithm, scored by both. N runs; M meta-inference runs each.

    Attributes:
        own: $\log\xi$ of the algorithm that made the output, shape (N, 1 + K): column 0 belongs
            to the trace it really used, the others to `regenerate`. K is M, or M - 1 if looseness
            was not asked for.
        cross: $\log\xi$ of the other algorithm at the same outputs, shape (N, M_other).
        values: The outputs, stacked, or `None`.
        repeats: For every run, whether an earlier one had the same real-valued output (runs that
            were made at the same time were compared); `None` if it is not known.
    """

    own: Float[np.ndarray, "N K"]
    cross: Float[np.ndarray, "N M"]
    values: Any = None
    repeats: Any = None

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
        repeats = None if self.repeats is None else self.repeats[runs]
        return Side(self.own[runs], self.cross[runs], values, repeats)


@dataclass(frozen=True)
class Draws:
    r"""All runs of an estimate. Make one with `aide.draw`, turn it into numbers with `summarise`.

    Attributes:
        gold: Runs of the gold standard.
        target: Runs of the target.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of the target per output.
        names: What the two algorithms are called.
        log_z: What they claim about $\log Z$ (`None`: nothing).
        key_data: The words of the key that made them; empty if several did.
        first_run: Index of the first run.
        same_algorithm: Whether gold and target are one and the same algorithm.
    """

    gold: Side
    target: Side
    num_meta_gold: int
    num_meta_target: int
    names: tuple[str, str] = ("gold", "target")
    log_z: tuple[float | None, float | None] = (None, None)
    key_data: tuple[int, ...] = ()
    first_run: int = 0
    same_algorithm: bool = False

    def summarise(self) -> Any:
        """Turn the draws into an `Estimate`."""
        from aide.estimation.summary import Estimate

        return Estimate(self)

    def without_values(self) -> "Draws":
        """The same without outputs."""
        gold, target = replace(self.gold, values=None), replace(self.target, values=None)
        return replace(self, gold=gold, target=target)


def concatenate(draws: Sequence[Draws]) -> Draws:
    """Pool the runs of several draws of the same pair (other keys, or other ranges of runs)."""
    if not draws:
        raise ValueError("concatenate needs at least one Draws, got an empty list.")
    first = draws[0]
    for other in draws[1:]:
        for field in ("names", "num_meta_gold", "num_meta_target", "log_z"):
            if getattr(other, field) != getattr(first, field):
                raise ValueError(
                    f"draws to concatenate must agree on {field}, got {getattr(first, field)} and "
                    f"{getattr(other, field)}."
                )
    for index, one in enumerate(draws):
        for other in draws[:index]:
            _check_different(one, other)
    gold = join([d.gold for d in draws])
    return replace(first, gold=gold, target=join([d.target for d in draws]), key_data=())


def _check_different(one: Draws, other: Draws) -> None:
    same_key = one.key_data == other.key_data and one.key_data != ()
    longest = [max(d.gold.num_runs, d.target.num_runs) for d in (one, other)]
    apart = (
        one.first_run >= other.first_run + longest[1]
        or other.first_run >= one.first_run + longest[0]
    )
    if one is other or (same_key and not apart):
        raise ValueError(
            f"these draws hold the same runs (key {one.key_data}, from runs {one.first_run} and "
            f"{other.first_run} on): pooling them would count them twice. Use another key or "
            "another first_run."
        )


def join(sides: Sequence[Side]) -> Side:
    """Runs of the same algorithms, one after another; the fewest own columns win."""
    columns = min(side.own.shape[1] for side in sides)
    values = [side.values for side in sides]
    joined = None
    if all(value is not None for value in values):
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *values)
    marks = [side.repeats for side in sides]
    known = all(mark is not None for mark in marks)
    return Side(
        np.concatenate([side.own[:, :columns] for side in sides]),
        np.concatenate([side.cross for side in sides]),
        joined,
        np.concatenate(marks) if known else None,
    )
