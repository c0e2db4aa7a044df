"""What is kept of one setting: numbers, and no draws."""

from typing import Any, NamedTuple

import numpy as np

from aide.comparing.columns import slack_of
from aide.engine.pilot import Pilot
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    Tolerance,
    judge_errors,
)
from aide.estimation.errors.variables import NamesOutputs
from aide.estimation.sandwich.balance import calm_error, calm_limits
from aide.estimation.summary import Estimate
from aide.reporting.numbers import short
from aide.reporting.verdict import PASSED
from aide.tuning.settings import Setting, words_of

KINDS = {"means": "a mean off by", "sds": "an sd off by", "probabilities": "a probability off by"}
"""Headings of the limits of the largest error, by the kind of the tolerance."""


class Point(NamedTuple):
    """One setting, measured.

    Attributes:
        setting: The parameters.
        num_particles: How many the algorithm says that it has, or `None`.
        seconds: Of one run of the target, measured here.
        value: AIDE's estimate by its plain terms, that of `aide.estimate`.
        std_error: Its standard error.
        bound: The same bound by its calm terms, which vary less: `low` and `high` are about it.
        low: Lower limit of that at 95%; no lower limit of the divergence.
        high: Upper limit of the divergence at 95%, `Estimate.unseen` outputs left out.
        looseness: What meta-inference adds at most at own outputs, or `None`.
        num_meta: M of the target.
        num_runs: Runs of the target.
        bound_std_error: Standard error of `bound`.
        closeness: Errors of what people report beside their tolerance, or `None`.
    """

    setting: Setting
    num_particles: int | None
    seconds: float
    value: float
    std_error: float
    bound: float
    low: float
    high: float
    looseness: float | None
    num_meta: int
    num_runs: int
    bound_std_error: float = np.nan
    closeness: ErrorCloseness | None = None

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether limits at 95%, taken alone, are within the tolerance."""
        if isinstance(tolerance, ErrorTolerance):
            return self.closeness is not None and self.closeness.outcome == PASSED
        return self.high <= tolerance

    @property
    def name(self) -> str:
        """The setting in words."""
        return words_of(self.setting)

    def record(self) -> dict[str, Any]:
        """All numbers, parameters first."""
        mine = {k: v for k, v in self._asdict().items() if k not in ("setting", "closeness")}
        tolerance = None if self.closeness is None else self.closeness.tolerance
        errors = error_record(tolerance, self.closeness)
        return {**self.setting, **mine, **errors}


def titles_of(tolerance: Tolerance) -> tuple[str, ...]:
    """Of the columns that are beside the tolerance."""
    if isinstance(tolerance, ErrorTolerance):
        return tuple(KINDS[kind] for kind in kinds_of(tolerance))
    return "bound (nats)", "95% limits"


def kinds_of(tolerance: ErrorTolerance) -> list[str]:
    """What it limits, in the order of the parts of a verdict."""
    return [kind for kind, limit in tolerance._asdict().items() if limit is not None]


def error_cells(closeness: ErrorCloseness) -> tuple[str, ...]:
    """Limits of the largest error of every kind."""
    return tuple(part.range for part in closeness.parts)


def error_record(
    tolerance: Tolerance | None, closeness: ErrorCloseness | None
) -> dict[str, float | None]:
    """The same as numbers: in sds, logarithms of ratios of sds, and probabilities."""
    found: dict[str, float | None] = {}
    if isinstance(tolerance, ErrorTolerance):
        for index, kind in enumerate(kinds_of(tolerance)):
            part = None if closeness is None else closeness.parts[index]
            found[f"{kind}_low"] = None if part is None else part.least
            found[f"{kind}_high"] = None if part is None else part.most
    return found


def point_of(
    setting: Setting,
    num_particles: int | None,
    found: Pilot,
    tolerance: Tolerance | None = None,
    posterior: NamesOutputs | None = None,
) -> Point:
    """The numbers of one target's draws; errors if the tolerance is one of errors."""
    estimate = Estimate(found.draws, posterior=posterior)
    low, high = calm_limits(found.draws, LEVEL)
    target = found.draws.target
    return Point(
        setting,
        num_particles,
        found.costs[1].simulate,
        estimate.value,
        estimate.std_error,
        bound_of(estimate),
        low,
        high,
        slack_of(estimate),
        target.num_meta,
        target.num_runs,
        calm_error(found.draws),
        judge_errors(estimate, tolerance) if isinstance(tolerance, ErrorTolerance) else None,
    )


def seconds_words(seconds: float) -> str:
    """`1.2 ms`."""
    if seconds >= 1.0:
        return f"{short(seconds)} s"
    return f"{short(1e3 * seconds)} ms" if seconds >= 1e-3 else f"{short(1e6 * seconds)} µs"
