"""What is kept of one setting: numbers, and no draws."""

from typing import Any, NamedTuple

import numpy as np

from aide.comparing.columns import slack_of
from aide.draws.pilot import Pilot
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.sandwich.balance import calm_error, calm_limits
from aide.estimation.summary import Estimate
from aide.reporting.numbers import short
from aide.tuning.settings import Setting, words_of


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

    @property
    def name(self) -> str:
        """The setting in words."""
        return words_of(self.setting)

    def record(self) -> dict[str, Any]:
        """All numbers, parameters first."""
        return {**self.setting, **{k: v for k, v in self._asdict().items() if k != "setting"}}


def point_of(setting: Setting, num_particles: int | None, found: Pilot) -> Point:
    """The numbers of one target's draws."""
    estimate = Estimate(found.draws)
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
    )


def seconds_words(seconds: float) -> str:
    """`1.2 ms`."""
    if seconds >= 1.0:
        return f"{short(seconds)} s"
    return f"{short(1e3 * seconds)} ms" if seconds >= 1e-3 else f"{short(1e6 * seconds)} µs"
