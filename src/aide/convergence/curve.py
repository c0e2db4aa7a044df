"""What is known about a chain after each of several numbers of steps."""

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
"""Probability with which each limit holds, taken alone, and with which each sentence holds."""


@dataclass(frozen=True, repr=False, eq=False)
class Convergence(Result):
    """What is known about the chain after each number of steps.

    N runs do not show chains that are late or stuck more rarely than `left_out`; upper limits and
    what follows from them are about the rest. Nothing is known about lengths that were not
    measured: a divergence may rise again (unadjusted chains do).

    Attributes:
        steps: Numbers of steps, increasing.
        estimates: One `Estimate` each; the gold standard's runs are the same in all.
        lower: Lower 95% limits of the divergence from samples (`Estimate.sandwich`); NaN without.
        rhat: R-hat of `num_chains` ordinary chains, the largest of all coordinates.
        ess: Their bulk effective sample size, the smallest of all coordinates.
        num_chains: How many there were.
        lacks: What lower limits lack, in words, if there are none.
        pilots: What pilot chains said about stuck and late ones (`ReverseFit.notes`).
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
        """Upper confidence limits of the bound without `left_out`: each holds with `level`."""
        check_level(level)
        return tuple(balanced_limits(estimate.draws, level)[1] for estimate in self.estimates)

    def left_out(self, level: float = LEVEL) -> float:
        """Share of the runs (of either algorithm) that the upper limits leave out, at most."""
        return max(share for estimate in self.estimates for share in estimate.unseen(level))

    def steps_within(self, nats: float, level: float = LEVEL) -> int | None:
        """The first length measured from which on every upper confidence limit is below `nats`.

        Law: with probability `level`, no length *measured* from there on is farther away than
        `nats`, `left_out` apart. For if one were, the limit of the longest of those would be too
        low: one limit, that of a given length, decides, whether or not the divergence falls.
        """
        limits, first = self.upper(level), len(self.steps)
        while first and limits[first - 1] <= nats:
            first -= 1
        return self.steps[first] if first < len(limits) else None

    def steps_beyond(self, nats: float) -> int | None:
        """The last length measured up to which every lower limit is above `nats`.

        Law: with probability 95%, every length measured up to there is farther away than `nats`.
        """
        num = 0
        while num < len(self.steps) and self.lower[num] > nats:
            num += 1
        return self.steps[num - 1] if num else None

    def records(self) -> list[dict[str, Any]]:
        r"""One dictionary per number of steps, for tables.

        `value` estimates the same bound as `Estimate.value`, with less noise if $Z$ is known on
        both sides (`balanced_terms`); `upper` (without `left_out`), `lower` and `total_variation`
        (everything included) are 95% limits.
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
        """The shortest statement about the smallest distance that was reached."""
        return curve_headline(self)

    @property
    def head(self) -> tuple[str, ...]:
        """How far the gold standard can be trusted."""
        return (self.estimates[-1].trust.words,)

    def grid(self) -> Grid:
        """One line per number of steps."""
        return grid_of(self)

    def rows(self) -> list[tuple[str, str]]:
        """What the numbers say, in words."""
        return curve_rows(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to keep in mind: about stuck pilots, missing limits, and single estimates."""
        return notes_of(self)

    def numbers(self) -> dict[str, Any]:
        """What all lengths share."""
        return {"num_chains": self.num_chains, "left_out": self.left_out()}

    def layout(self) -> PanelGrid:
        """The divergence, and below it R-hat and ESS if there are any."""
        if np.isnan(self.rhat).all():
            return PanelGrid()
        return PanelGrid(2, 1, (5.6, 5.0), {"sharex": True, "height_ratios": [5, 3]})

    def plot_on(self, panels: np.ndarray) -> None:
        """Bounds and looseness, R-hat and ESS against steps; the former alone in one panel."""
        plot_convergence(self, panels)
