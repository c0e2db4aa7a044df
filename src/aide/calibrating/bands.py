r"""Simultaneous bands of the empirical distribution function of N uniform numbers, exact.

$\hat F(z)$ is the share of the numbers at or below $z$, so that $N\hat F(z_i)$ is binomial at every
point $z_i = i/K$. The bands hold at all points together (Säilynoja, Bürkner & Vehtari, 2022,
Statistics and Computing 32:32): they are pointwise binomial limits of level $1 - \gamma$, with
$\gamma$ such that the probability to stay within all of them is the one that is asked for.

That probability is computed, not simulated. The counts between neighbouring points are those of a
Poisson process with $N$ expected events, given that there are $N$. The walk of the counts through
the bands is a chain of convolutions, divided by the Poisson probability of $N$ events.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike

from aide._core.numerics import special
from aide._core.validate import check_size
from aide.estimation.interval import check_level

MOST_POINTS = 200
"""Largest number of points at which the distribution function is compared; N if N is less."""
NUM_BISECTIONS = 50
"""Halvings of the interval of log gamma, which determine gamma to 14 digits."""
TIES = 1e-9
"""Relative difference up to which binomial tails that are equal by symmetry may differ."""
EXACT_ABOVE = 1e-9
"""P-value below which 1 - coverage is mostly rounding, and the union bound is reported."""


class Band(NamedTuple):
    """Limits of an empirical distribution function at points, which hold together.

    Attributes:
        points: $z_i$, without 0 and 1, where the function is known.
        lower: Least value of the function within the band.
        upper: Largest value of the function within the band.
        coverage: Probability with which N uniform numbers stay within the band at all points.

    Example:
        >>> found = aide.calibrating.band_of_ranks(50)  # of 50 numbers
        >>> bool((found.lower <= found.points).all() and (found.points <= found.upper).all())
        True
    """

    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    coverage: float


def num_points(num: int) -> int:
    """The number of points K + 1, both ends included, for N numbers."""
    return min(num, MOST_POINTS) + 1


@cache
def band_of_ranks(num: int, level: float = 0.95) -> Band:
    """The narrowest band of equal pointwise levels with a coverage of at least `level`.

    Args:
        num: The number N of uniform numbers.
        level: The least probability with which they stay within the band.

    Returns:
        Points, limits, and the coverage, which exceeds `level` because counts are integers.

    Example:
        >>> found = aide.calibrating.band_of_ranks(100)
        >>> bool(0.95 <= found.coverage < 0.97)
        True
    """
    check_size("num", num, 2)
    check_level(level)
    low, high = np.log(1 - level) - np.log(num_points(num)) - 1.0, 0.0
    for _ in range(NUM_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if coverage(num, np.exp(middle)) >= level else (low, middle)
    lower, upper = _limits(num, np.exp(low))
    points = np.linspace(0, 1, num_points(num))[1:-1]
    return Band(points, lower / num, upper / num, coverage(num, np.exp(low)))


def uniform_p_value(ranks: ArrayLike) -> float:
    """The p-value of the hypothesis that numbers in (0, 1) are independent and uniform.

    Law: it is at most `p` with probability `p` or less, and at most `1 - level` exactly where the
    numbers leave `band_of_ranks(num, level)`. The statistic is the smallest of all pointwise
    binomial p-values.

    Args:
        ranks: The numbers, such as normalised ranks of simulation-based calibration.

    Returns:
        The p-value, exact down to 1e-9 and an upper bound below.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> aide.calibrating.uniform_p_value(rng.random(200) ** 1.5) < 1e-4
        True
    """
    values = np.asarray(ranks, np.float64).ravel()
    num = values.size
    check_size("ranks", num, 2)
    points = np.linspace(0, 1, num_points(num))[1:-1]
    counts = np.searchsorted(np.sort(values), points, side="right")
    places = counts, np.arange(points.size)
    gamma = (2 + TIES) * float(min(table[places].min() for table in _tails(num)))
    if gamma >= 1:
        return 1.0
    exact = 1 - coverage(num, gamma)
    return exact if exact > EXACT_ABOVE else min(gamma * points.size, EXACT_ABOVE)


def coverage(num: int, gamma: float) -> float:
    """The probability that no pointwise two-sided binomial p-value is `gamma` or less."""
    lower, upper = _limits(num, gamma)
    rate = num / (num_points(num) - 1)
    steps = _poisson(np.arange(num + 1), rate)
    walk, begin = np.ones(1), 0
    for low, high in zip(lower, upper, strict=True):
        if high < low:
            return 0.0
        after = np.convolve(walk, steps[: high - begin + 1])[: high - begin + 1]
        walk, begin = after[max(low - begin, 0) :], max(low, begin)
    last = steps[num - begin - np.arange(walk.size)]
    return float(walk @ last / _poisson(np.array([num]), float(num))[0])


def _limits(num: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest count at every point whose tails exceed half of gamma."""
    below, above = (table > gamma / 2 for table in _tails(num))
    return below.argmax(axis=0), num - above[::-1].argmax(axis=0)


@lru_cache(8)
def _tails(num: int) -> tuple[np.ndarray, np.ndarray]:
    """Binomial probabilities of at most, and of at least, each count (rows) at each point."""
    points = np.linspace(0, 1, num_points(num))[1:-1]
    counts = np.arange(num + 1)[:, None]
    above = special.bdtrc(np.maximum(counts - 1, 0), num, points)
    return special.bdtr(counts, num, points), np.where(counts <= 0, 1.0, above)


def _poisson(counts: np.ndarray, rate: float) -> np.ndarray:
    return np.exp(counts * np.log(rate) - rate - special.gammaln(counts + 1.0))
