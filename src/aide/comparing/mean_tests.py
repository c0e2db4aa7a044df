r"""Tests whether functions of a draw have different means in two sets of draws.

**Functions.** Every coordinate is replaced by the normal scores of its ranks in both sets together,
which tames tails and changes nothing if both distributions are equal. Of the scores
$z$, location $z_i$, spread $z_i^2$ and dependence $z_i z_j$ are compared. P-values are multiplied
by the number of functions (Bonferroni).

**The test of one mean.** Under the null hypothesis both samples have one distribution. Its moments
are therefore those of both samples together, also for a function that is constant in one of them.
The tail of the difference of means is that of two samples from the pooled values, by a saddlepoint
approximation (Lugannani & Rice, 1980, Adv. Appl. Probab. 12:475-490), which is accurate for a
handful of rare events, where a normal approximation is off by orders of magnitude. A function with
two values is a count and gets Fisher's exact test. Draws that depend on each other count as their
effective number of independent draws.
"""

from typing import NamedTuple

import numpy as np

from aide._core.chains import mean_variance
from aide._core.numerics import special
from aide.comparing.draw_sets import DrawSet
from aide.estimation.terms import Sequences

FEW_EVENTS = 10
"""Least number of draws off the most common value for an estimate of their own dependence."""
CLEARLY_NOT = 0.2
"""P-value above which the normal approximation is not replaced by a more accurate one."""
DIGITS = 1e-12
"""Relative difference below which two values count as equal: rounding in double precision."""


class _Worth(NamedTuple):
    """The effective number of draws, and the degrees of freedom of its estimate."""

    num: float
    freedom: float


class _Pooled(NamedTuple):
    """Different values, standardised to mean 0 and variance 1, and the share of each."""

    values: np.ndarray
    shares: np.ndarray


def mean_test(
    in_a: np.ndarray,
    in_b: np.ndarray,
    sequences: tuple[Sequences, Sequences],
    effective: tuple[float, float],
) -> float:
    """Two-sided p-value of the difference of two means.

    Args:
        in_a: Values of the function at the draws of one sample.
        in_b: Values at the draws of the other sample.
        sequences: Rows of each chain, in order.
        effective: Effective sizes of both samples, for functions that hardly change.
    """
    both = np.concatenate([in_a, in_b])
    values, counts = np.unique(both, return_counts=True)
    if np.ptp(values) <= DIGITS * max(1.0, np.abs(values).max()):
        return 1.0
    mode = values[np.argmax(counts)]
    worth = _worth(in_a, in_b, sequences, effective, mode)
    if values.size == 2:
        return _counted(in_a != mode, in_b != mode, worth)
    difference = float(in_a.mean() - in_b.mean())
    difference /= both.std()
    nums = worth[0].num, worth[1].num
    spread = 1 / nums[0] + 1 / nums[1]
    score = abs(difference) / np.sqrt(spread)
    tail = float(special.ndtr(-score))
    if 2 * tail < CLEARLY_NOT and tail > 0:
        pooled = np.sign(difference) * (values - both.mean()) / both.std()
        tail = _saddlepoint(_Pooled(pooled, counts / both.size), nums, abs(difference))
        tail = max(tail, np.finfo(float).tiny)
        score = -float(special.ndtri(min(tail, 0.5)))
    unknown = sum((1 / one.num) ** 2 / one.freedom for one in worth)
    return min(1.0, 2 * _student(spread**2 / unknown if unknown > 0 else np.inf, -score))


def _worth(
    in_a: np.ndarray,
    in_b: np.ndarray,
    sequences: tuple[Sequences, Sequences],
    effective: tuple[float, float],
    mode: float,
) -> tuple[_Worth, _Worth]:
    """The effective number of each sample, by its own autocorrelation if enough of it changes."""
    found, known = [], []
    for terms, rows, size in zip((in_a, in_b), sequences, effective, strict=True):
        if np.ptp(terms) == 0:
            found.append(_Worth(size, np.inf))
            continue
        own = mean_variance([terms[part] for part in rows])
        if np.count_nonzero(terms != mode) >= FEW_EVENTS:
            found.append(_Worth(own.effective, own.freedom))
            known.append(own.effective / terms.size)
        else:
            found.append(_Worth(min(own.effective, size), np.inf))
    share = min(known, default=1.0)
    first, second = (
        one._replace(num=min(one.num, share * terms.size)) if one.freedom == np.inf else one
        for one, terms in zip(found, (in_a, in_b), strict=True)
    )
    return first, second


def _counted(in_a: np.ndarray, in_b: np.ndarray, worth: tuple[_Worth, _Worth]) -> float:
    """Fisher's exact test of two counts.

    Counts among draws that depend on each other are scaled to the effective number of draws, and
    rounded towards each other.
    """
    from scipy import stats

    sizes = [max(round(one.num), 1) for one in worth]
    shares = [float(part.mean()) for part in (in_a, in_b)]
    counts = []
    for size, share, other in zip(sizes, shares, shares[::-1], strict=True):
        count = size * share
        nearer = np.floor(count + 1e-9) if share > other else np.ceil(count - 1e-9)
        counts.append(int(nearer))
    table = [[counts[0], sizes[0] - counts[0]], [counts[1], sizes[1] - counts[1]]]
    exact = float(stats.fisher_exact(table)[1])
    freedom = min(one.freedom for one in worth)
    return exact if exact >= 1.0 else 2 * _student(freedom, float(special.ndtri(exact / 2)))


def _student(freedom: float, score: float) -> float:
    """The lower tail of Student's distribution; the normal one for infinitely many degrees."""
    return float(special.stdtr(freedom, score) if freedom < np.inf else special.ndtr(score))


def _saddlepoint(pooled: _Pooled, nums: tuple[float, float], at: float) -> float:
    r"""$P(\bar x_a - \bar x_b \ge at)$ for two samples from pooled values.

    With $K$ the cumulant generating function of one value, that of the difference is
    $K(s) = n K_1(s/n) + m K_1(-s/m)$; $K'(\hat s) = at$,
    $r = \sqrt{2(\hat s\,at - K)}$, $u = \hat s\sqrt{K''}$, and the tail is
    $\Phi(-r) + \phi(r)(1/u - 1/r)$, never more than Chernoff's bound $e^{-r^2/2}$.
    """
    low, high = 0.0, np.sqrt(min(nums)) * np.sqrt(max(nums))
    while _cumulants(pooled, nums, high)[1] < at:
        low, high = high, 2 * high
        if high > 1e12:  # no mean of the values reaches this difference
            return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _cumulants(pooled, nums, middle)[1] < at:
            low = middle
        else:
            high = middle
    point = 0.5 * (low + high)
    level, _, curvature = _cumulants(pooled, nums, point)
    exponent = max(point * at - level, 0.0)
    r, u = np.sqrt(2 * exponent), point * np.sqrt(max(curvature, 0.0))
    if r < 1e-3 or u <= 0:
        return float(special.ndtr(-r))
    density = np.exp(-0.5 * r**2) / np.sqrt(2 * np.pi)
    tail = float(special.ndtr(-r) + density * (1 / u - 1 / r))
    return float(np.clip(tail, 0.0, np.exp(-exponent)))


def _cumulants(pooled: _Pooled, nums: tuple[float, float], s: float) -> tuple[float, float, float]:
    """K and its first two derivatives."""
    total = np.zeros(3)
    for num, sign in zip(nums, (1.0, -1.0), strict=True):
        tilt = sign * s / num * pooled.values
        shift = tilt.max()
        weight = pooled.shares * np.exp(tilt - shift)
        scale = weight.sum()
        mean = weight @ pooled.values / scale
        second = weight @ pooled.values**2 / scale - mean**2
        level = np.log(scale) + shift
        total += np.array([num * level, sign * mean, second / num])
    return float(total[0]), float(total[1]), float(total[2])


MOST_PAIRS = 500
"""Largest number of pairs of coordinates; if there are more, only neighbours are compared."""


class FunctionTest(NamedTuple):
    """The test of one function.

    Attributes:
        function: Name of the function, such as `location of x[0]`.
        in_a: Mean, standard deviation or correlation in the first set.
        in_b: Mean, standard deviation or correlation in the second set.
        p_value: P-value over all functions together.
        column: The coordinate, or the first of two.
    """

    function: str
    in_a: float
    in_b: float
    p_value: float
    column: int


def compare_functions(a: DrawSet, b: DrawSet) -> tuple[FunctionTest, ...]:
    """Tests of all functions, the smallest p-value first."""
    scores = _normal_scores(np.concatenate([a.columns, b.columns]))
    z, w = scores[: len(a.columns)], scores[len(a.columns) :]
    names, size = a.coordinates, scores.shape[1]
    found: list[tuple[str, float, float, float, int]] = []
    for i in range(size):
        mean, spread = (
            (a.columns[:, i].mean(), b.columns[:, i].mean()),
            (
                a.columns[:, i].std(),
                b.columns[:, i].std(),
            ),
        )
        found.append((f"location of {names[i]}", *mean, _p_value(a, b, z[:, i], w[:, i]), i))
        squares = z[:, i] ** 2, w[:, i] ** 2
        found.append((f"spread of {names[i]}", *spread, _p_value(a, b, *squares), i))
    for i, j in _pairs(size):
        products = z[:, i] * z[:, j], w[:, i] * w[:, j]
        correlations = _correlation(z[:, i], z[:, j]), _correlation(w[:, i], w[:, j])
        name = f"dependence of {names[i]}, {names[j]}"
        found.append((name, *correlations, _p_value(a, b, *products), i))
    tests = [
        FunctionTest(name, float(x), float(y), min(1.0, p * len(found)), i)
        for name, x, y, p, i in found
    ]
    return tuple(sorted(tests, key=lambda test: test.p_value))


def _pairs(size: int) -> list[tuple[int, int]]:
    if size * (size - 1) // 2 <= MOST_PAIRS:
        return [(i, j) for i in range(size) for j in range(i + 1, size)]
    return [(i, i + 1) for i in range(size - 1)]


def _p_value(a: DrawSet, b: DrawSet, in_a: np.ndarray, in_b: np.ndarray) -> float:
    return mean_test(in_a, in_b, (a.sequences, b.sequences), (a.effective, b.effective))


def _normal_scores(columns: np.ndarray) -> np.ndarray:
    from scipy import stats

    ranks = stats.rankdata(columns, axis=0)
    return special.ndtri((ranks - 0.5) / len(columns))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    scale = x.std() * y.std()
    return float(np.mean((x - x.mean()) * (y - y.mean())) / scale) if scale > 0 else 0.0
