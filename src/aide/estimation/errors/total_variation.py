r"""Total variation from bounded terms, without an inequality for divergences or a heavy tail.

$TV(p, q) \le TV(P, Q) = E[t]$ with $t = \frac12|\tanh(\ell_P/2)| + \frac12|\tanh(\ell_Q/2)|$ for
one run of each algorithm: a variable between 0 and 1. Its mean has an upper limit that holds
exactly, for every number of runs and every law: outputs that no run shows are included. The limit
comes from bets that the mean is smaller (Waudby-Smith & Ramdas, 2024, JRSS B 86:1-27): against a
mean of $m$ or more, wealth $\prod_i\{1 + \lambda_i(m - t_i)\}$ exceeds $1/\delta$ with probability
$\delta$ at most, for any $\lambda_i$ that depend on earlier runs only.

Jensen-Shannon divergence and squared Hellinger distance of $P$ and $Q$ are such means too, and
are above those of the outputs by the same argument (data processing): they are always finite.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aide._core.numerics import special
from aide._core.types import GOLD, Role
from aide.engine.draws import Draws
from aide.estimation.errors.overlap import MOST_APART, bennett_constant, effective_runs
from aide.estimation.interval import confidence_limit, unseen_share
from aide.estimation.terms import log_z_shift, rests_on_one_density, terms_of

SHARE_OF_CONSTANT = 0.2
r"""Share of $\delta$ for the limits of an unknown constant: a choice."""
GRID = 7
"""Number of values of an unknown constant at which the limit is computed: a choice."""
MOST_STAKE = 0.9
r"""Largest $\lambda$ as a share of the largest possible one: a choice."""
PRECISION = 1e-5
"""Precision of limits, which are rounded outwards: a choice."""

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


def upper_mean(terms: np.ndarray, level: float) -> float:
    r"""A number above the mean of independent terms in [0, 1] with probability `level` or more.

    $\lambda_i = \sqrt{2\log(1/\delta)/(n\hat\sigma_{i-1}^2)}$ from earlier runs, at most
    `MOST_STAKE`$/(1 - m)$; $\hat\sigma^2$ includes one more term of size $\frac12$.
    """
    return _where_rejected(terms, level, 0.0, 1.0)


def mean_limits(terms: np.ndarray, level: float) -> tuple[float, float]:
    """Both limits of a mean of independent terms in [0, 1], together at `level`."""
    each = 0.5 + level / 2
    return 1 - _where_rejected(1 - terms, each, 0.0, 1.0), _where_rejected(terms, each, 0.0, 1.0)


def _where_rejected(terms: np.ndarray, level: float, low: float, high: float) -> float:
    log_wanted, low = -np.log1p(-level), max(low, float(terms.mean()))
    stakes = _stakes(terms, log_wanted)
    if _log_wealth(terms, stakes, high) < log_wanted:
        return high
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        if _log_wealth(terms, stakes, middle) >= log_wanted:
            high = middle
        else:
            low = middle
    return high


def _stakes(terms: np.ndarray, log_wanted: float) -> np.ndarray:
    r"""$\lambda_i$ from the spread of the terms before $i$."""
    num = terms.size
    seen = np.arange(1, num + 1)
    mean = (0.5 + np.cumsum(terms)) / (seen + 1)
    variance = (0.25 + np.cumsum((terms - mean) ** 2)) / (seen + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.sqrt(2 * log_wanted / (num * before))


def _log_wealth(terms: np.ndarray, stakes: np.ndarray, mean: float) -> float:
    bets = np.minimum(stakes, MOST_STAKE / max(1 - mean, 1e-12))
    with np.errstate(over="ignore"):
        return float(np.max(np.cumsum(np.log1p(np.minimum(bets, 1e12) * (mean - terms)))))


def _value(sizes: list[np.ndarray]) -> float:
    return float(0.5 * sum(part.mean() for part in sizes))


def _limit(draws: Draws, sizes: list[np.ndarray], level: float) -> float:
    return upper_mean(_paired(sizes), level)


def _chained_limit(draws: Draws, sizes: list[np.ndarray], level: float) -> float:
    rows = [draws.sequences(role) for role in Role]
    seen = confidence_limit([0.5 * part for part in sizes], level, rows)
    missed = max(unseen_share(effective_runs(draws, role), level) for role in Role)
    return float(min(seen + missed, 1.0))


def _paired(sizes: list[np.ndarray]) -> np.ndarray:
    """Averages of a run from each side, each run used once; runs of the larger side in groups."""
    fewest = min(part.size for part in sizes)
    means = []
    for part in sizes:
        edges = np.arange(fewest) * part.size // fewest
        counts = np.diff(np.append(edges, part.size))
        means.append(np.add.reduceat(part, edges) / counts)
    return 0.5 * (means[0] + means[1])


def _unknown_constant(
    draws: Draws,
    parts: tuple[np.ndarray, np.ndarray],
    level: float,
    chained: bool,
    sizes_of: Sizes = total_variation_sizes,
) -> TotalVariation:
    r"""The largest limit for any constant between the constant's own limits.

    At the true $c$, $\frac12 + \frac12\{\sigma(-\ell_P) - \sigma(\ell_Q)\}$ of a pair of runs has
    the mean $\frac12$.
    """
    spent = SHARE_OF_CONSTANT * (1 - level)
    joined, num_gold = np.concatenate(parts), parts[0].size
    best = bennett_constant(joined, num_gold, 0.5)
    low, high = _constant_limits(draws, parts, best, 1 - spent, chained)
    limit, found = (_chained_limit if chained else _limit), []
    for c in np.concatenate([[best], np.linspace(low, high, GRID)]):
        sizes = [sizes_of(part - c) for part in parts]
        found.append(limit(draws, sizes, level + spent))
    value = _value([sizes_of(part - best) for part in parts])
    return TotalVariation(value, max(*found, value))


def _constant_limits(
    draws: Draws,
    parts: tuple[np.ndarray, np.ndarray],
    best: float,
    level: float,
    chained: bool,
) -> tuple[float, float]:
    """Limits of the log ratio of both constants, by Bennett's equation."""

    def is_possible(c: float) -> bool:
        outside = special.expit(c - parts[0])
        inside = special.expit(parts[1] - c)
        if chained:
            rows, each = [draws.sequences(role) for role in Role], 0.5 + level / 2
            samples = [outside, -inside]
            low, high = (confidence_limit(samples, one, rows) for one in (1 - each, each))
            return low <= 0 <= high
        low, high = mean_limits(_paired([outside, 1 - inside]), level)
        return low <= 0.5 <= high

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
