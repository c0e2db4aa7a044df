"""The result of `aide.measure_convergence`: a chain after several numbers of steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aide.convergence.report import curve_headline, curve_rows, grid_of, notes_of, plot_convergence
from aide.estimation.interval import check_level
from aide.estimation.sandwich.balance import balanced_limits, balanced_terms
from aide.estimation.summary import Estimate
from aide.estimation.terms import mean_of
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.result import Result

LEVEL = 0.95
"""Confidence with which each limit alone holds, and each sentence: the usual convention."""


@dataclass(frozen=True, repr=False, eq=False)
class Convergence(Result):
    """The divergence of a chain after each of several numbers of steps.

    N runs do not show chains that are late or stuck more rarely than `left_out`; upper limits and
    statements based on them do not count such chains. Numbers of steps between the measured ones
    are unknown: a divergence may rise again (that of unadjusted chains does).

    Attributes:
        steps: Numbers of steps, increasing.
        estimates: One `Estimate` per number of steps; all share the gold standard's runs.
        lower: Lower 95% limits of the divergence from samples (`Estimate.sandwich`), or NaN.
        rhat: R-hat of `num_chains` ordinary chains, the largest of all coordinates.
        ess: Bulk effective sample size of these chains, the smallest of all coordinates.
        num_chains: Number of ordinary chains.
        lacks: The reason, in words, why there are no lower limits.
        pilots: Notes on stuck and late pilot chains (`ReverseFit.notes`).
    """

    steps: tuple[int, ...]
    estimates: tuple[Estimate, ...]
    lower: tuple[float, ...]
    rhat: tuple[float, ...]
    ess: tuple[float, ...]
    num_chains: int
    lacks: str = ""
    pilots: tuple[str, ...] = ()

    def upper(self, level: float = LEVEL) -> tuple[float, ...]:
        """Upper confidence limits of the bound, each with `level`, not counting `left_out`."""
        check_level(level)
        return tuple(balanced_limits(estimate.draws, level)[1] for estimate in self.estimates)

    def left_out(self, level: float = LEVEL) -> float:
        """Largest share of the runs, of either algorithm, that the upper limits do not count."""
        return max(share for estimate in self.estimates for share in estimate.unseen(level))

    def steps_within(self, nats: float, level: float = LEVEL) -> int | None:
        """The first number of steps from which on every upper confidence limit is below `nats`.

        Law: with probability `level`, no *measured* number of steps from there on has a larger
        divergence than `nats`, not counting `left_out`. A violation would need the limit of the
        largest number of steps with a larger divergence to fail: a single given limit.
        """
        limits, first = self.upper(level), len(self.steps)
        while first and limits[first - 1] <= nats:
            first -= 1
        return self.steps[first] if first < len(limits) else None

    def steps_beyond(self, nats: float) -> int | None:
        """The last number of steps up to which every lower limit is above `nats`.

        Law: with probability 95%, every measured number of steps up to there has a divergence above
        `nats`.
        """
        num = 0
        while num < len(self.steps) and self.lower[num] > nats:
            num += 1
        return self.steps[num - 1] if num else None

    def records(self) -> list[dict[str, Any]]:
        r"""One dictionary per number of steps, for tables.

        `value` estimates the same bound as `Estimate.value`, with less noise if $Z$ is known on
        both sides (`balanced_terms`); `upper` (not counting `left_out`), `lower` and
        `total_variation` (counting everything) are 95% limits.
        """
        rows = []
        for index, upper in enumerate(self.upper()):
            estimate = self.estimates[index]
            gold, target = (mean_of(terms) for terms in balanced_terms(estimate.draws))
            loose = estimate.looseness.target
            row = {
                "steps": self.steps[index],
                "value": gold.value + target.value,
                "std_error": float(np.hypot(gold.std_error, target.std_error)),
                "upper": upper,
                "lower": self.lower[index],
                "looseness": None if loose is None else loose.value,
                "total_variation": estimate.total_variation(),
                "rhat": self.rhat[index],
                "ess": self.ess[index],
            }
            rows.append(row)
        return rows

    @property
    def headline(self) -> str:
        """The sentence about the smallest divergence that was reached."""
        return curve_headline(self)

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standard."""
        return (self.estimates[-1].trust.words,)

    def grid(self) -> Grid:
        """One line per number of steps."""
        return grid_of(self)

    def rows(self) -> list[tuple[str, str]]:
        """The meaning of the numbers, in words."""
        return curve_rows(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats: stuck pilots, missing limits, and notes of single estimates."""
        return notes_of(self)

    def numbers(self) -> dict[str, Any]:
        """The numbers that all numbers of steps share."""
        return {"num_chains": self.num_chains, "left_out": self.left_out()}

    def layout(self) -> PanelGrid:
        """A panel for the divergence, and one below for R-hat and ESS, if known."""
        if np.isnan(self.rhat).all():
            return PanelGrid()
        return PanelGrid(2, 1, (5.6, 5.0), {"sharex": True, "height_ratios": [5, 3]})

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot bounds and looseness, R-hat and ESS against steps; or bounds alone in one panel."""
        plot_convergence(self, panels)
