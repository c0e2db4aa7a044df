"""Goals of `until`, which say when runs suffice, and limits on what they may cost."""

from typing import NamedTuple

import numpy as np

from aide._core.validate import check_count
from aide.estimation.closeness import LEVEL, check_tolerance, judge, remedy
from aide.estimation.errors.tolerance import (
    AnyTolerance,
    ErrorTolerance,
    as_tolerance,
    tolerance_words,
)
from aide.estimation.sandwich.balance import balanced_limits
from aide.estimation.summary import Estimate
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, in_nats, short

MAX_RUNS = 100_000
"""Default limit of runs of both algorithms together: a choice."""
GROWTH_FOR_ERROR = 1.5
"""Factor from look to look for a standard error, which the pilot predicts well."""
GROWTH_FOR_VERDICT = 2.0
"""Factor from look to look for a verdict, whose number of runs is hard to predict."""


class Limits(NamedTuple):
    """Limits on the cost of a call, its pilot and compilation included.

    Attributes:
        runs: Runs of both algorithms together.
        seconds: Wall-clock seconds. If they decide, another machine stops at other runs.
    """

    runs: int = MAX_RUNS
    seconds: float = np.inf


class StandardError(NamedTuple):
    """Until the standard error of the estimate is `nats` or less."""

    nats: float

    growth = GROWTH_FOR_ERROR
    keep_values = None

    def reason(self, estimate: Estimate) -> str:
        """Why the goal is reached, in words; empty if it is not."""
        if not estimate.std_error <= self.nats:
            return ""
        return f"the standard error, {short(estimate.std_error, 2)}, is {self.nats:g} or less"

    def lacking(self, estimate: Estimate) -> str:
        """What is missing to reach the goal, in words."""
        if not np.isfinite(estimate.std_error):
            return "the standard error is infinite"
        factor = (estimate.std_error / self.nats) ** 2
        text = f"the standard error is {short(estimate.std_error, 2)}, not {self.nats:g}"
        about = f"{factor:,.0f}" if factor >= 10 else f"{factor:.2g}"
        return f"{text}: about {about} times as many runs would reach it"


class Decided(NamedTuple):
    """Until the target is shown to be within `tolerance`, or beyond it.

    Attributes:
        tolerance: Nats, or errors such as `means 0.1 sd, sds 10%`.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> until = aide.estimation.Decided(0.1)  # nats; the divergence is 0.25
        >>> aide.estimate(0, exact, fit, until=until, max_runs=20_000).judge(0.1).outcome
        'failed'
    """

    tolerance: AnyTolerance

    growth = GROWTH_FOR_VERDICT
    keep_values = True

    def reason(self, estimate: Estimate) -> str:
        """Why the goal is reached, in words; empty if it is not."""
        outcome, wanted = judge(estimate, self.tolerance).outcome, as_tolerance(self.tolerance)
        if isinstance(wanted, ErrorTolerance):
            where = {PASSED: "within", FAILED: "beyond"}.get(outcome)
            return f"errors were shown to be {where} {wanted}" if where else ""
        where = {PASSED: "below", FAILED: "above"}.get(outcome)
        return f"the divergence was shown to be {where} {in_nats(wanted)}" if where else ""

    def lacking(self, estimate: Estimate) -> str:
        """What is missing to reach the goal, in words."""
        words = remedy(estimate, judge(estimate, self.tolerance))
        return f"{UNDECIDED} at {tolerance_words(as_tolerance(self.tolerance))}: {words}"


class Shown(NamedTuple):
    """Until the divergence is shown to be within `tolerance`, or the bound is shown to be above.

    With a bound above the tolerance no number of runs would show the former. No classifier is
    trained.
    """

    tolerance: float

    growth = GROWTH_FOR_VERDICT
    keep_values = None

    def reason(self, estimate: Estimate) -> str:
        """Why the goal is reached, in words; empty if it is not."""
        low, high = balanced_limits(estimate.draws, estimate.look.level(LEVEL))
        if high <= self.tolerance:
            return f"the divergence was shown to be below {in_nats(self.tolerance)}"
        is_above = low > self.tolerance
        return f"the bound, {short(low)} or more, is above {self.tolerance:g}" if is_above else ""

    def lacking(self, estimate: Estimate) -> str:
        """What is missing to reach the goal, in words."""
        words = remedy(estimate, judge(estimate, self.tolerance))
        return f"the divergence was not shown to be below {in_nats(self.tolerance)}: {words}"


Goal = StandardError | Decided | Shown


def as_goal(until: float | Goal) -> Goal:
    """The goal that a caller states; a number is a standard error in nats."""
    if isinstance(until, Decided):
        return Decided(as_tolerance(until.tolerance))
    if isinstance(until, Shown):
        check_tolerance(until.tolerance)
        return until
    goal = until if isinstance(until, StandardError) else StandardError(until)
    if not isinstance(goal.nats, int | float) or not 0 < goal.nats < np.inf:
        raise ValueError(
            "until must be a standard error in nats, such as 0.05, or "
            f"aide.estimation.Decided(tolerance), got {until!r}."
        )
    return goal


def limits_of(max_runs: int | None, max_seconds: float | None) -> Limits:
    """The limits that a caller states, checked, with their defaults."""
    runs = MAX_RUNS if max_runs is None else max_runs
    seconds = np.inf if max_seconds is None else float(max_seconds)
    check_count("max_runs", runs)
    if not seconds > 0:
        raise ValueError(f"max_seconds must be positive, got {max_seconds!r}.")
    return Limits(int(runs), seconds)
