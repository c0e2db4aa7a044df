"""How often are verdicts of compare and until wrong, and does early stopping keep the coverage?

    python benchmarks/run.py studies/verdicts                       # 400 replications
    python benchmarks/run.py studies/verdicts --only until --first 40 --replications 40

Rows are counts, so that parts with other `--first` can be added by `merge.py`. After `--seconds` no
further replication is begun.

Pairs of Gaussians whose divergence is known, placed where verdicts are hardest: at the tolerance
itself, where "within" and "too far" both count as wrong. `--far` has pairs at half and at twice the
tolerance instead, which should be decided. "Loose" ones hide a trace. Coverage is that of the
interval, where the algorithms are tractable and the divergence is what it is about, and of the
sandwich everywhere.
"""

import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from support.pairs import NoisyGaussian, gaussian

import aide
from benchmarks.table import Row

TOLERANCE = 0.1


def pairs(*factors: float) -> Iterator[tuple[str, float, Any, Any]]:
    """Name, divergence in tolerances, gold standard and target."""
    for factor in factors:
        distance, gold = float(np.sqrt(factor * TOLERANCE)), gaussian(0.0, 1.0)
        yield "shifted", factor, gold, gaussian(distance, 1.0)
        yield "wider", factor, gold, gaussian(0.0, _std(factor * TOLERANCE))
        yield "loose", factor, gold, NoisyGaussian(distance, 0.6, 0.8)


def _std(divergence: float) -> float:
    """The std s for which (s² + 1/s²)/2 - 1, the divergence of N(0, s²) and N(0, 1), is that."""
    cosh = divergence + 1.0
    return float(np.sqrt(cosh + np.sqrt(cosh**2 - 1.0)))


class _Tally:
    """Verdicts and limits of many replications."""

    def __init__(self, divergence: float):
        self.divergence = divergence
        self.outcomes: list[str] = []
        self.inside: list[bool] = []
        self.sandwiched: list[bool] = []
        self.runs: list[int] = []

    def add(self, estimate: aide.estimation.Estimate) -> None:
        """One replication."""
        self.outcomes.append(estimate.judge(TOLERANCE).outcome)
        low, high = estimate.interval()
        self.inside.append(low <= self.divergence <= high)
        both = estimate.sandwich()
        self.sandwiched.append(both.lower <= self.divergence <= both.upper)
        self.runs.append(sum(side.num_runs for side in estimate.draws.sides))

    def row(self, name: str, factor: float) -> Row:
        """What they show, as counts."""
        within, far = (self.outcomes.count(word) for word in ("passed", "failed"))
        return {
            "pair": name,
            "D / tolerance": factor,
            "replications": len(self.outcomes),
            "within": within,
            "too far": far,
            "wrong within": within if factor >= 1.0 else None,
            "wrong too far": far if factor <= 1.0 else None,
            "interval holds D": None if name == "loose" else sum(self.inside),
            "sandwich holds D": sum(self.sandwiched),
            "runs": sum(self.runs),
        }


def seeds(first: int, replications: int, seconds: float) -> Iterator[int]:
    """Seeds of all replications, as far as there is time."""
    begun = time.perf_counter()
    for seed in range(first, first + replications):
        if time.perf_counter() - begun > seconds:
            return
        yield seed


def until(
    replications: int = 400,
    first: int = 0,
    runs: int = 1500,
    far: bool = False,
    seconds: float = np.inf,
) -> Iterator[Row]:
    """`estimate(until=Decided(0.1))` with a budget of runs."""
    goal = aide.estimation.Decided(TOLERANCE)
    cases = list(pairs(*((0.5, 2.0) if far else (1.0,))))
    tallies = [_Tally(factor * TOLERANCE) for _, factor, *_ in cases]
    for seed in seeds(first, replications, seconds):
        for (_, _, gold, target), tally in zip(cases, tallies, strict=True):
            tally.add(aide.estimate(jax.random.key(seed), gold, target, until=goal, max_runs=runs))
    for (name, factor, *_), tally in zip(cases, tallies, strict=True):
        yield tally.row(name, factor)


def errors(
    replications: int = 400, first: int = 0, wanted: float = 0.03, seconds: float = np.inf
) -> Iterator[Row]:
    """`estimate(until=0.03)`: does the interval hold, and is the standard error reached?"""
    cases = [case for case in pairs(0.1, 1.0, 10.0) if case[0] != "loose"]
    tallies, reached = [_Tally(factor * TOLERANCE) for _, factor, *_ in cases], [0] * len(cases)
    for seed in seeds(first, replications, seconds):
        for index, (_, _, gold, target) in enumerate(cases):
            found = aide.estimate(jax.random.key(seed), gold, target, until=wanted)
            tallies[index].add(found)
            reached[index] += int(found.std_error <= wanted)
    for (name, factor, *_), tally, num in zip(cases, tallies, reached, strict=True):
        yield {**tally.row(name, factor), "standard error reached": num}


def compared(
    replications: int = 400,
    first: int = 0,
    runs: int = 300,
    far: bool = False,
    seconds: float = np.inf,
) -> Iterator[Row]:
    """`compare` of all pairs at once, M raised where looseness hides the answer."""
    cases = list(pairs(*((0.5, 2.0) if far else (1.0,))))
    tallies = [_Tally(factor * TOLERANCE) for _, factor, *_ in cases]
    targets = {f"{name} {factor}": target for name, factor, _, target in cases}
    raised = [0] * len(cases)
    for seed in seeds(first, replications, seconds):
        found = aide.compare(
            jax.random.key(seed),
            cases[0][2],
            targets,
            tolerance=TOLERANCE,
            num_gold=runs,
            num_target=runs,
        )
        for index, estimate in enumerate(found.values()):
            tallies[index].add(estimate)
            raised[index] += int(estimate.draws.target.num_meta > 1)
    for (name, factor, *_), tally, num in zip(cases, tallies, raised, strict=True):
        yield {**tally.row(name, factor), "M raised": num}


TABLES = {"until": until, "errors": errors, "compared": compared}
