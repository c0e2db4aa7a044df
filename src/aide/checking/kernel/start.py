"""Is the start close enough to the density to judge a kernel from there?"""

from dataclasses import dataclass

import numpy as np

from aide.checking.kernel.runs import StepRuns
from aide.estimation.tails import pareto_shape

MIN_EFFECTIVE = 200.0
"""Effective runs below which a pass would say little."""
TOO_HEAVY = 0.7
"""Pareto shape of the weights beyond which their mean cannot be trusted either."""
MOST_UNCOVERED = 0.01


@dataclass(frozen=True)
class StartQuality:
    r"""What the weights $w = \pi/s$ say about the start.

    Attributes:
        effective_runs: $(\sum w)^2 / \sum w^2$.
        tail: Pareto shape $k$ of the weights.
        uncovered: Share of the steps that end where $\pi/s$ is larger than at any start.
        moved: Share of the steps that changed the state.
    """

    effective_runs: float
    tail: float
    uncovered: float
    moved: float

    @property
    def flaw(self) -> str | None:
        """Why a pass from this start would say little, in words; `None` if it is good enough."""
        if self.uncovered > MOST_UNCOVERED:
            return (
                f"{self.uncovered:.1%} of the kernel's steps end where the density is larger, "
                "relative to the start, than at any of the draws of the start"
            )
        if self.tail > TOO_HEAVY:
            return f"the weights density/start are heavy-tailed (Pareto k = {self.tail:.2f})"
        if self.effective_runs < MIN_EFFECTIVE:
            return f"the runs are worth only {self.effective_runs:.0f} draws from the density"
        return None


class Weights:
    """Collects the weights of fresh runs."""

    def __init__(self) -> None:
        self.log_before: list[np.ndarray] = []
        self.log_after: list[np.ndarray] = []
        self.moved: list[np.ndarray] = []

    def add(self, runs: StepRuns) -> None:
        """Look at fresh runs."""
        self.log_before.append(runs.before.log_weight)
        self.log_after.append(runs.after.log_weight)
        self.moved.append((runs.before.flat != runs.after.flat).any(axis=1))

    def start(self) -> StartQuality:
        """Sum up."""
        before, after = np.concatenate(self.log_before), np.concatenate(self.log_after)
        peak = before.max()
        weights = np.exp(before - peak)
        weights /= weights.sum()
        tail = pareto_shape(weights) if np.unique(weights).size > 50 else -np.inf
        beyond = after > peak + 1e-9 * max(1.0, abs(peak))
        return StartQuality(
            effective_runs=float(1 / (weights**2).sum()),
            tail=float(tail),
            uncovered=float(weights @ beyond),
            moved=float(weights @ np.concatenate(self.moved)),
        )
