r"""Limits of means of bounded terms, by bets; they hold exactly, for every number of terms.

Against a mean of $m$ or more, wealth $\prod_i\{1 + \lambda_i(m - t_i)\}$ exceeds $1/\delta$ with
probability $\delta$ at most, for any $\lambda_i$ that depend on earlier terms only (Waudby-Smith &
Ramdas, 2024, JRSS B 86:1-27).
"""

from collections.abc import Callable, Sequence

import numpy as np

SMALL = 0.05
"""Mean below which bets on single runs of either algorithm reject it, above on pairs: a choice."""
MOST_STAKE = 0.9
r"""Largest $\lambda$ as a share of the largest possible one: a choice."""
PRECISION = 1e-5
"""Precision of limits, which are rounded outwards: a choice."""


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


def upper_average(first: np.ndarray, second: np.ndarray, level: float) -> float:
    """A number above the average of both samples' means with probability `level` or more.

    A mean of `SMALL` or more is rejected by bets on pairs, a smaller one by bets on single terms:
    for every mean the bets are fixed before the terms are known, so that the limit holds exactly.
    """
    pairs = in_pairs([first, second])
    limit = upper_mean(pairs, level)
    return upper_average_if_small(first, second, level) if limit < SMALL else limit


def upper_average_if_small(first: np.ndarray, second: np.ndarray, level: float) -> float:
    r"""The smallest mean, up to `SMALL`, that bets on single terms reject.

    If the average of both means is $m$, one is $a$ and the other $2m - a$. For each $a$ the wealth
    is $\prod_i\{1 + \lambda_i(a - t_i)\}\prod_j\{1 + \lambda_j(2m - a - t_j)\}$; $m$ is rejected
    if all $a$ are. The logarithm is concave in $a$, hence least at $a = 0$ or $a = 2m$.
    """
    terms = np.stack(_in_groups([first, second]), axis=1).ravel()  # one of either in turn
    log_wanted = -np.log1p(-level)
    stakes = np.minimum(_stakes(terms, log_wanted), MOST_STAKE)
    is_first = np.arange(terms.size) % 2 == 0

    def log_wealth(mean: float) -> float:
        ends = (
            np.cumsum(np.log1p(stakes * (2 * mean * side - terms)))
            for side in (is_first, ~is_first)
        )
        return float(np.max(np.minimum(*ends)))

    return _least_rejected(log_wealth, log_wanted, float(terms.mean()), SMALL)


def _where_rejected(terms: np.ndarray, level: float, low: float, high: float) -> float:
    log_wanted = -np.log1p(-level)
    stakes = _stakes(terms, log_wanted)
    wealth = lambda mean: _log_wealth(terms, stakes, mean)
    return _least_rejected(wealth, log_wanted, max(low, float(terms.mean())), high)


def _least_rejected(
    log_wealth: Callable[[float], float], log_wanted: float, low: float, high: float
) -> float:
    """The smallest mean with that wealth, rounded up; `high` if none below has it."""
    if log_wealth(high) < log_wanted:
        return high
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        if log_wealth(middle) >= log_wanted:
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


def in_pairs(sizes: Sequence[np.ndarray]) -> np.ndarray:
    """Averages of a run from each side, each run used once; runs of the larger side in groups."""
    first, second = _in_groups(sizes)
    return 0.5 * (first + second)


def _in_groups(sizes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Means of groups of runs on the larger side, as many as the other side has runs."""
    fewest = min(part.size for part in sizes)
    means = []
    for part in sizes:
        edges = np.arange(fewest) * part.size // fewest
        counts = np.diff(np.append(edges, part.size))
        means.append(np.add.reduceat(part, edges) / counts)
    return means


def is_balanced(first: np.ndarray, second: np.ndarray, level: float, most: float) -> bool:
    r"""Whether two means may be equal, which lie between $\frac12 -$ `most` and $\frac12$ if so.

    Bets on single terms, against each common mean: wealth is least at an end of the range, as in
    `upper_average_if_small`. Equal means are called so with probability `level` or more.
    """
    terms = np.stack(_in_groups([first, second]), axis=1).ravel()
    log_wanted = np.log(2) - np.log1p(-level)
    stakes = np.minimum(_stakes(terms, log_wanted), MOST_STAKE / (0.5 + most))
    sides = np.where(np.arange(terms.size) % 2 == 0, stakes, -stakes)
    for signed in (sides, -sides):
        wealth = [np.cumsum(np.log1p(signed * (terms - a))) for a in (0.5 - most, 0.5)]
        if np.max(np.minimum(*wealth)) >= log_wanted:
            return False
    return True
