"""A setting whose runs were added to until it was decided: what they show, in nats or in errors."""

from typing import NamedTuple

from aide.comparing.columns import slack_of
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    Tolerance,
    judge_errors,
)
from aide.estimation.sandwich.balance import calm_error, calm_limits
from aide.estimation.summary import Estimate
from aide.reporting.numbers import in_nats, interval, short
from aide.reporting.verdict import PASSED, UNDECIDED
from aide.tuning.pilots import Planned
from aide.tuning.point import Point, error_cells


class Tried(NamedTuple):
    """A setting whose runs were added to until it was decided, or the budget spent."""

    planned: Planned
    estimate: Estimate
    tolerance: Tolerance
    num_runs: int

    @property
    def limits(self) -> tuple[float, float]:
        """Of the bound in nats; the upper one is one of the divergence, too."""
        return calm_limits(self.estimate.draws, self.estimate.look.level(LEVEL))

    @property
    def closeness(self) -> ErrorCloseness | None:
        """Errors beside their tolerance, if it is one of errors."""
        if not isinstance(self.tolerance, ErrorTolerance):
            return None
        return judge_errors(self.estimate, self.tolerance)

    @property
    def is_within(self) -> bool:
        """Whether it was shown to be within the tolerance."""
        if isinstance(self.tolerance, ErrorTolerance):
            return judge_errors(self.estimate, self.tolerance).outcome == PASSED
        return self.limits[1] <= self.tolerance

    @property
    def is_loose(self) -> bool:
        """Whether looseness, not the algorithm, may be why it was not; errors have none."""
        if isinstance(self.tolerance, ErrorTolerance):
            return False
        slack = slack_of(self.estimate) or 0.0
        return not self.is_within and bound_of(self.estimate) - slack <= self.tolerance

    @property
    def outcome(self) -> str:
        """The verdict, and why there is none."""
        if isinstance(self.tolerance, ErrorTolerance):
            return judge_errors(self.estimate, self.tolerance).outcome
        if self.is_within:
            return PASSED
        if self.limits[0] <= self.tolerance:
            return UNDECIDED
        return f"{UNDECIDED}: {'looseness' if self.is_loose else 'bound above'}"

    @property
    def words(self) -> str:
        """What is shown about it."""
        if self.closeness is not None:
            return self.closeness.limits
        return f"its divergence is below {in_nats(short(self.limits[1]))} (97.5%)"

    @property
    def cells(self) -> tuple[str, ...]:
        """Of a table, under `titles_of` the tolerance."""
        if self.closeness is not None:
            return error_cells(self.closeness)
        return short(bound_of(self.estimate)), interval(*self.limits)

    def point(self) -> Point:
        """Its numbers, as those of a sweep."""
        draws, one = self.estimate.draws, self.planned
        return Point(
            one.setting,
            one.num_particles,
            one.seconds,
            self.estimate.value,
            self.estimate.std_error,
            bound_of(self.estimate),
            *self.limits,
            slack_of(self.estimate),
            draws.target.num_meta,
            draws.target.num_runs,
            calm_error(draws),
            self.closeness,
        )
