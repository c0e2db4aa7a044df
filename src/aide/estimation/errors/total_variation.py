r"""Total variation from bounded terms, without an inequality for divergences or a heavy tail.

$TV(p, q) \le TV(P, Q) = E[t]$ with $t = \frac12|\tanh(\ell_P/2)| + \frac12|\tanh(\ell_Q/2)|$ for
one run of each algorithm: a variable between 0 and 1. Its mean has an upper limit that holds
exactly, for every number of runs and every law: outputs that no run shows are included. The limit
comes from bets that the mean is smaller (`aide.estimation.errors.bets`). Small limits come from
bets on single runs of either algorithm: these are twice as many as pairs of runs, and their number
decides how much mass may be unseen.

Jensen-Shannon divergence and squared Hellinger distance of $P$ and $Q$ are such means too, and
are above those of the outputs by the same argument (data processing): they are always finite.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aide._core.numerics import special
from aide._core.types import GOLD, Role
from aide.engine.draws import Draws
from aide.estimation.errors.bets import (
    in_pairs,
    is_balanced,
    mean_limits,
    upper_average,
    upper_average_if_small,
    upper_mean,
)
from aide.estimation.errors.overlap import MOST_APART, bennett_constant, effective_runs
from aide.estimation.interval import confidence_limit, unseen_share
from aide.estimation.terms import log_z_shift, rests_on_one_density, terms_of

SHARE_OF_CONSTANT = 0.2
r"""Share of $\delta$ for the limits of an unknown constant: a choice."""
SHARE_IF_SMALL = 0.5
r"""The same for small sizes, whose limits depend more on the constant: a choice."""
STEPS = (0.05, 0.025, 0.0125)
"""Means of sizes below which the constant is limited again: a choice."""
GRID = 7
"""Number of values of an unknown constant at which the limit is computed: a choice."""
Sizes = Callable[[np.ndarray], np.ndarray]
"""A function of log ratios with values in [0, 1], whose mean is a divergence."""


class TotalVariation(NamedTuple):
    r"""The total variation $TV(P, Q)$ of runs with their scores, which bounds that of the outputs.

    Attributes:
        value: The estimate.
        upper: Upper limit; it includes outputs that no run shows.
    """

    value: float
    upper: float


def total_variation_sizes(log_ratio: np.ndarray) -> np.ndarray:
    r"""$|\tanh(\ell/2)|$, whose mean over both sides is $TV(P, Q)$."""
    return np.abs(np.tanh(np.clip(log_ratio, -MOST_APART, MOST_APART) / 2))


def jensen_shannon_sizes(log_ratio: np.ndarray) -> np.ndarray:
    r"""$1 - h(\sigma)/\log 2$, $h$ the entropy of $\sigma = P/(P+Q)$: mean $JS(P, Q)/\log 2$."""
    inside = special.expit(log_ratio)
    entropy = special.entr(inside) + special.entr(special.expit(-log_ratio))
    return np.clip(1 - entropy / np.log(2), 0.0, 1.0)


def hellinger_sizes(log_ratio: np.ndarray) -> np.ndarray:
    r"""$1 - 1/\cosh(\ell/2)$, whose mean over both sides is $H^2(P, Q) = 1 - \int\sqrt{PQ}$."""
    return 1 - 1 / np.cosh(np.clip(log_ratio, -MOST_APART, MOST_APART) / 2)


def total_variation_of(
    draws: Draws, level: float, sizes_of: Sizes = total_variation_sizes
) -> TotalVariation:
    """Estimate and upper limit, which holds with probability `level`.

    For runs that depend on each other the limit is that of `confidence_limit`, plus
    `unseen_share`. Both are 1 if the estimate rests on one density that both algorithms state.

    Args:
        draws: Runs with their scores.
        level: The probability.
        sizes_of: A function of log ratios with values in [0, 1]; others give other divergences.
    """
    if rests_on_one_density(draws):
        return TotalVariation(1.0, 1.0)
    terms, shift = terms_of(draws), log_z_shift(draws, GOLD)
    parts = terms.gold, -terms.target
    chained = any(draws.sequences(role) is not None for role in Role)
    if shift is not None:
        sizes = [sizes_of(part + shift) for part in parts]
        limit = _chained_limit if chained else _limit
        return TotalVariation(_value(sizes), max(limit(draws, sizes, level), _value(sizes)))
    return _unknown_constant(draws, parts, level, chained, sizes_of)


def _value(sizes: list[np.ndarray]) -> float:
    return float(0.5 * sum(part.mean() for part in sizes))


def _limit(draws: Draws, sizes: list[np.ndarray], level: float) -> float:
    return upper_average(sizes[0], sizes[1], level)


def _chained_limit(draws: Draws, sizes: list[np.ndarray], level: float) -> float:
    rows = [draws.sequences(role) for role in Role]
    seen = confidence_limit([0.5 * part for part in sizes], level, rows)
    missed = max(unseen_share(effective_runs(draws, role), level) for role in Role)
    return float(min(seen + missed, 1.0))


def _unknown_constant(
    draws: Draws,
    parts: tuple[np.ndarray, np.ndarray],
    level: float,
    chained: bool,
    sizes_of: Sizes = total_variation_sizes,
) -> TotalVariation:
    r"""The largest limit for any constant between the constant's own limits.

    The largest mean of sizes is rejected first, by bets on pairs. Those below each of `STEPS` are
    rejected only after all above, by bets on single runs: if the mean is smaller, these limit the
    constant more closely.
    """
    best = bennett_constant(np.concatenate(parts), parts[0].size, 0.5)
    value = _value([sizes_of(part - best) for part in parts])

    def largest(
        share: float,
        is_possible: Callable[[float, float], bool],
        limit: Callable[[list[np.ndarray], float], float],
    ) -> float:
        """The largest limit, for this share of the error in the limits of the constant."""
        spent = share * (1 - level)
        low, high = _constant_limits(lambda c: is_possible(c, 1 - spent), best)
        constants = np.concatenate([[best], np.linspace(low, high, GRID)])
        return max(limit([sizes_of(part - c) for part in parts], level + spent) for c in constants)

    if chained:
        upper = largest(
            SHARE_OF_CONSTANT,
            lambda c, each: _is_possible_for_chains(draws, parts, c, each),
            lambda sizes, each: _chained_limit(draws, sizes, each),
        )
        return TotalVariation(value, max(upper, value))
    upper = largest(
        SHARE_OF_CONSTANT,
        lambda c, each: _is_possible(_sides(parts, c), each),
        lambda sizes, each: upper_mean(in_pairs(sizes), each),
    )
    for most in STEPS:
        if upper < most:
            upper = largest(
                SHARE_IF_SMALL,
                lambda c, each, most=most: is_balanced(*_sides(parts, c), each, most),
                lambda sizes, each, most=most: min(
                    upper_average_if_small(sizes[0], sizes[1], each), most
                ),
            )
    return TotalVariation(value, max(upper, value))


def _sides(parts: tuple[np.ndarray, np.ndarray], c: float) -> tuple[np.ndarray, np.ndarray]:
    r"""$Q/(P+Q)$ at runs of $P$ and $P/(P+Q)$ at runs of $Q$, if the constant is $c$.

    At the true $c$ both have the same mean, which is at most $\frac12$ and, if the mean of sizes
    of any kind is $m$, at least $\frac12 - m$: $1$ less twice that mean is the triangular
    discrimination, at most twice any of the three divergences.
    """
    return special.expit(c - parts[0]), special.expit(parts[1] - c)


def _is_possible(sides: tuple[np.ndarray, np.ndarray], level: float) -> bool:
    """Whether both means may be equal, at this level."""
    low, high = mean_limits(in_pairs([sides[0], 1 - sides[1]]), level)
    return low <= 0.5 <= high


def _is_possible_for_chains(
    draws: Draws, parts: tuple[np.ndarray, np.ndarray], c: float, level: float
) -> bool:
    rows, each = [draws.sequences(role) for role in Role], 0.5 + level / 2
    outside, inside = _sides(parts, c)
    low, high = (confidence_limit([outside, -inside], one, rows) for one in (1 - each, each))
    return low <= 0 <= high


def _constant_limits(is_possible: Callable[[float], bool], best: float) -> tuple[float, float]:
    """Limits of the log ratio of both constants, rounded outwards."""
    ends = []
    for sign in (-1, 1):
        step, near = 1e-3, 0.0
        while step < MOST_APART and is_possible(best + sign * step):
            near, step = step, 2 * step
        for _ in range(8):
            middle = 0.5 * (near + step)
            near, step = (middle, step) if is_possible(best + sign * middle) else (near, middle)
        ends.append(best + sign * step)
    return ends[0], ends[1]
