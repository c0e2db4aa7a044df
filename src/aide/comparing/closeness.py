"""Is a divergence below a tolerance? Decided from both sides, or not at all."""

from typing import NamedTuple

import numpy as np

from aide.estimation.sandwich.sandwich import what_is_missing
from aide.estimation.summary import Estimate
from aide.estimation.terms import are_tractable, rests_on_one_density

LEVEL = 0.95
"""With which every outcome holds; each limit alone fails with probability 2.5%."""


class Closeness(NamedTuple):
    """Limits of a divergence beside a tolerance.

    Attributes:
        lower: Lower limit at 95%, by `Estimate.sandwich`; 0, which always holds, where the upper
            one decides or there is none.
        upper: Upper limit at 95% without `Estimate.unseen` outputs; infinite where all terms rest
            on one density that both state, which says nothing about the outputs.
        tolerance: Nats that would do.
        lacks: What a lower limit lacks, in words; empty if nothing.
    """

    lower: float
    upper: float
    tolerance: float
    lacks: str

    @property
    def outcome(self) -> str:
        """`within`, `too far` or `undecided`.

        Law: each of the first two is false with probability 2.5% at most.
        """
        if self.upper <= self.tolerance:
            return "within"
        return "too far" if self.lower > self.tolerance else "undecided"


def judge(estimate: Estimate, tolerance: float) -> Closeness:
    """Compare with a tolerance; a classifier is trained only where the upper limit is above it."""
    draws = estimate.draws
    if rests_on_one_density(draws):
        return Closeness(0.0, np.inf, tolerance, "")
    upper = max(estimate.interval(LEVEL)[1], 0.0)
    lacks = "" if are_tractable(draws) else what_is_missing(draws)
    decided = upper <= tolerance
    lower = 0.0 if decided or lacks else estimate.sandwich(LEVEL).lower
    return Closeness(lower, upper, tolerance, lacks)


def remedy(estimate: Estimate, closeness: Closeness) -> str:
    """What would decide, in a few words."""
    if rests_on_one_density(estimate.draws):
        return "test the samplers with aide.check"
    for advice in estimate.advice:
        if advice.remaining > advice.fall.value:
            return f"improve meta-inference of the {advice.role.word}"
        return f"raise num_meta_{advice.role.word}, say to {advice.num_meta}"
    if "keep_values" in closeness.lacks:
        return "keep the outputs (keep_values=True)"
    return "raise num_gold and num_target"


def check_tolerance(tolerance: float) -> None:
    """Raise unless it is a positive number of nats."""
    if not tolerance > 0:
        raise ValueError(f"tolerance must be a positive number of nats, got {tolerance}.")
