"""How often is what `aide` prints false? Counted on pairs of laws whose every number is known."""

from typing import Any

import numpy as np
from scipy import special

import aide
from aide.convergence.curve import Convergence
from aide.estimation.interval import total_variation_bound, unseen_share
from aide.estimation.notes import is_impossible
from aide.estimation.sandwich.balance import LogRatio, bridge_failure
from support.finite_laws import Pair
from support.made import made_draws

SLACK = 1e-9
LEVEL = 0.95
CLAIMS = ("interval", "reading", "sandwich", "table reading", "contradiction", "below 0")
OLD = ("old interval", "old reading", "old contradiction")
"""Wrong on purpose: nothing left out, and five standard errors for a contradiction."""


def ratio_draws(ratio: tuple[np.ndarray, ...], log_z: Any = (0.0, 0.0)) -> aide.draws.Draws:
    r"""Draws of two tractable algorithms with M = 2, from $\ell$ at both kinds of outputs."""
    gold, target = (np.repeat(part[:, None], 2, axis=1) for part in ratio)
    sides = (np.zeros((len(gold), 3)), -gold), (np.zeros((len(target), 3)), target)
    return made_draws(*sides, (2, 2), log_z)


def count_false(pair: Pair, nums: tuple[int, int], count: int, seed: int = 0) -> dict[str, int]:
    """For every claim, and for the old ones, in how many of `count` replications it is false."""
    rng = np.random.default_rng(seed)
    truth, apart = pair.divergence, pair.total_variation
    shares = aide.estimation.Estimate(ratio_draws(pair.sample(rng, nums))).unseen(LEVEL)
    least, most = pair.without(shares), pair.with_most(shares)
    calm_least = pair.without(shares, calm=True)
    false = dict.fromkeys((*CLAIMS, *OLD), 0)
    for _ in range(count):
        ratio = pair.sample(rng, nums)
        estimate = aide.estimation.Estimate(ratio_draws(ratio))
        low, high = estimate.interval(LEVEL)
        found = estimate.sandwich(LEVEL)
        false["interval"] += low > most + SLACK or high < least - SLACK
        false["reading"] += estimate.total_variation(LEVEL) < apart - SLACK
        false["sandwich"] += found.lower > truth + SLACK or found.upper < calm_least - SLACK
        table = total_variation_bound(found.upper) + max(shares)
        false["table reading"] += min(table, 1.0) < apart - SLACK
        false["contradiction"] += bridge_failure(LogRatio(*ratio)) is not None
        false["below 0"] += is_impossible(estimate)
        false["old interval"] += not low - SLACK <= truth <= high + SLACK
        false["old reading"] += total_variation_bound(estimate.interval(0.9)[1]) < apart - SLACK
        false["old contradiction"] += _five_errors(LogRatio(*ratio))
    return false


def count_false_lengths(
    pairs: dict[int, Pair], nats: float, num_runs: int, count: int
) -> tuple[int, int]:
    """How often `Convergence.steps_within` is false, and how often it is if nothing is left out."""
    rng, steps = np.random.default_rng(0), tuple(pairs)
    share = unseen_share(num_runs, LEVEL)
    left = np.array([pair.without((share, share), calm=True) for pair in pairs.values()])
    whole = np.array([pair.divergence for pair in pairs.values()])
    nothing = tuple(np.nan for _ in steps)
    false = old = 0
    for _ in range(count):
        found = [
            aide.estimation.Estimate(ratio_draws(p.sample(rng, (num_runs,) * 2)))
            for p in pairs.values()
        ]
        first = Convergence(steps, tuple(found), nothing, nothing, nothing, 0).steps_within(nats)
        claimed = np.array([first is not None and number >= first for number in steps])
        false += bool((left[claimed] > nats).any())
        old += bool((whole[claimed] > nats).any())
    return false, old


def _five_errors(ratio: LogRatio) -> bool:
    """The rule before: a normal approximation for the difference of two bounded means."""
    gold, target = special.expit(-ratio.gold), special.expit(ratio.target)
    error = np.hypot(gold.std(ddof=1) / gold.size**0.5, target.std(ddof=1) / target.size**0.5)
    difference = abs(gold.mean() - target.mean())
    return bool(difference > 1e-9 and difference >= 5 * error)
