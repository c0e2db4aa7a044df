r"""The sandwich: lower ≤ D ≤ upper with one confidence statement."""

from typing import NamedTuple

import numpy as np

from aide.draws.draws import Draws
from aide.draws.repeats import rests_on_one_density
from aide.estimation.quantities import is_tractable
from aide.estimation.sandwich.balance import calm_limits
from aide.estimation.sandwich.lower_bound import lower_terms
from aide.estimation.sandwich.recipe import find_recipes

MIN_RUNS = 50
"""With fewer runs per side a classifier has too little to learn from."""


class Sandwich(NamedTuple):
    r"""$lower \le D \le upper$ holds with probability `level`, both ends together.

    Attributes:
        lower: Lower confidence limit, never below 0.
        upper: Upper confidence limit of AIDE's bound, without outputs of mass `unseen_share`.
        level: The probability.
        exact: Both algorithms are tractable: one unbiased estimate gives both limits.
        saturated: The lower limit is held down by the number of runs, not by the divergence.
    """

    lower: float
    upper: float
    level: float
    exact: bool
    saturated: bool


def find_sandwich(draws: Draws, level: float) -> Sandwich:
    """See `Estimate.sandwich`."""
    if rests_on_one_density(draws):  # the terms say nothing about the samplers
        return Sandwich(0.0, np.inf, level, False, False)
    lower, upper = calm_limits(draws, level)
    if is_tractable(draws, "gold") and is_tractable(draws, "target"):
        return Sandwich(lower, upper, level, True, False)
    reason = what_is_missing(draws)
    if reason:
        raise ValueError(reason)
    each = 0.5 + level / 2
    found = lower_terms(find_recipes(draws), each)
    return Sandwich(max(found.limit(each), 0.0), upper, level, False, found.saturated)


def what_is_missing(draws: Draws) -> str:
    """What a lower bound from samples lacks, in words; empty if nothing."""
    if draws.gold.values is None or draws.target.values is None:
        return (
            "a lower bound needs the outputs, which were not kept: estimate with keep_values=True."
        )
    fewest = min(draws.gold.num_runs, draws.target.num_runs)
    if fewest < MIN_RUNS:
        return (
            f"a lower bound needs at least {MIN_RUNS} runs on both sides, got {fewest}: raise "
            "num_gold and num_target."
        )
    return ""
