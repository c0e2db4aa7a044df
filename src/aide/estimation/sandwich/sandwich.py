r"""The sandwich: a lower and an upper limit of the divergence that hold together."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aide._core.types import Role
from aide.engine.draws import Draws
from aide.estimation.sandwich.balance import balanced_limits
from aide.estimation.sandwich.inputs import find_inputs
from aide.estimation.sandwich.lower_bound import lower_terms
from aide.estimation.terms import are_tractable, rests_on_one_density
from aide.reporting.figures import plot_limits
from aide.reporting.numbers import short
from aide.reporting.result import Result

MIN_RUNS = 50
"""Least runs of either algorithm for a classifier: each of its 5 x 2 folds then has 5 of them."""


@dataclass(frozen=True, repr=False)
class Sandwich(Result):
    r"""$lower \le D \le upper$ holds with probability `level`, both ends together.

    Attributes:
        lower: Lower confidence limit, never below 0.
        upper: Upper confidence limit of AIDE's bound, not counting outputs of mass `unseen_share`.
        level: The probability.
        exact: Both algorithms are tractable: one unbiased estimate gives both limits.
        saturated: The lower limit is held down by the number of runs, not by the divergence.
        assumed: What both limits assume, in words; empty if nothing.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> sandwich = estimate.sandwich()
        >>> sandwich.lower < 0.25 < sandwich.upper, sandwich.exact
        (True, True)
    """

    lower: float
    upper: float
    level: float
    exact: bool
    saturated: bool
    assumed: str = ""

    @property
    def limits(self) -> tuple[float, float]:
        """Lower and upper."""
        return self.lower, self.upper

    @property
    def headline(self) -> str:
        """Both limits."""
        limits = f"{short(self.lower)} ≤ divergence ≤ {short(self.upper)}"
        return f"{limits} ({100 * self.level:g}%)"

    @property
    def words(self) -> str:
        """Both limits, and what limits or explains them, if anything does."""
        if self.lower > self.upper:
            return f"{self.headline}; these limits contradict each other, see the note"
        if self.exact:
            return f"{self.headline}; both densities are known{self._given}"
        if self.saturated:
            return f"{self.headline}; more runs could raise the lower limit{self._given}"
        return f"{self.headline}{self._given}"

    def rows(self) -> list[tuple[str, str]]:
        """The origin of both limits."""
        lower = "from AIDE's estimate too: both densities are known."
        lower = lower if self.exact else "from a classifier trained to tell the outputs apart."
        given = [("given", self.assumed)] if self.assumed else []
        return [
            ("upper limit", "from AIDE's estimate, an upper bound on average."),
            ("lower limit", lower),
            *given,
        ]

    @property
    def _given(self) -> str:
        return f", {self.assumed}" if self.assumed else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Limits that contradict each other, or a number of runs that limits the lower limit."""
        if self.lower > self.upper:
            return ("The limits contradict each other: by chance, or because a density is wrong.",)
        if self.saturated:
            return ("The number of runs limits the lower limit: more runs could raise it.",)
        return ()

    def numbers(self) -> dict[str, Any]:
        """All attributes, by name."""
        return asdict(self)

    def plot_on(self, panels: np.ndarray) -> None:
        """The interval between both limits."""
        plot_limits(panels[0], ["sandwich"], [(self.lower, self.upper)], [np.nan])
        panels[0].set_xlabel("divergence (nats)")


def find_sandwich(draws: Draws, level: float) -> Sandwich:
    r"""Both limits; each fails with probability `(1 - level) / 2` at most.

    The upper limit is that of AIDE's bound by balanced terms. The lower limit comes from held-out
    terms of a classifier, or from balanced terms if both algorithms are tractable. Nothing is known
    ($0 \le D \le \infty$) where all terms rest on one density.
    """
    if rests_on_one_density(draws):  # the terms say nothing about the samplers
        return Sandwich(0.0, np.inf, level, False, False)
    lower, upper = balanced_limits(draws, level)
    if are_tractable(draws):
        return Sandwich(lower, upper, level, True, False, _assumed(draws))
    reason = what_is_missing(draws)
    if reason:
        raise ValueError(reason)
    each = 0.5 + level / 2
    sequences = [draws.sequences(role) for role in Role]
    found = lower_terms(find_inputs(draws), each, sequences, _effective(draws))
    lower = max(found.limit(each), 0.0)
    return Sandwich(lower, upper, level, False, found.saturated, _assumed(draws))


def _effective(draws: Draws) -> tuple[float, float]:
    """Effective numbers of independent runs: stored draws count as their coordinates say."""
    gold, target = (
        side.num_runs
        if side.chains is None or np.isnan(side.chains.effective)
        else min(side.chains.effective, side.num_runs)
        for side in draws.sides
    )
    return gold, target


def _assumed(draws: Draws) -> str:
    names = [side.role.word for side in draws.sides if side.chains is not None]
    return f"the {' and the '.join(names)} draws taken as exact" if names else ""


def is_closed_form(draws: Draws) -> bool:
    """Whether the sandwich is a formula, so that no classifier has to be trained."""
    few = min(side.num_runs for side in draws.sides) < 2
    return not few and are_tractable(draws) and not rests_on_one_density(draws)


def what_is_missing(draws: Draws) -> str:
    """Why there is no lower limit from samples, in words; empty if there is one."""
    if any(side.values is None for side in draws.sides):
        return (
            "a lower bound needs the outputs, which were not kept: estimate with keep_values=True."
        )
    fewest = min(side.num_runs for side in draws.sides)
    if fewest < MIN_RUNS:
        return (
            f"a lower bound needs at least {MIN_RUNS} runs on both sides, got {fewest}: raise "
            "num_gold and num_target."
        )
    return ""
