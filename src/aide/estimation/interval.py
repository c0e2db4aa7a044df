r"""Confidence limits for means of skewed terms, over several looks, and the tails of the terms.

The terms of AIDE are skewed (log ratios of a Gaussian pair are shifted $\chi^2$), so Student's
interval misses on one side twice as often as it should. The limits here invert Hall's cubic
transformation of the studentised mean (Hall, 1992, JRSS B 54:221-228), which removes the first
term of its Edgeworth expansion, for a sum of independent means (Zhou & Dinh, 2005, Biostatistics
6:187-200). `benchmarks/coverage/intervals.py` measures their coverage, shown in
`docs/explanation/certificates.md`.

No number of runs shows outputs that are rarer than the runs can sample, and rare outputs may add
any number of nats. So a limit is about the mean *without* outputs of mass `unseen_share` on each
side; total variation, which is bounded, accounts for those outputs as well
(`benchmarks/coverage/sentences.py`).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aide._core.chains import mean_variance
from aide.estimation.terms import Sequences

FEW_RUNS = 100
"""Terms per side below which the coverage of the intervals was not measured."""
MOST_SKEWED = 3.0
"""Skewness of the terms above which a few runs decide their mean, and a note says so."""
FALSE_ALARM = 1e-4
"""Largest probability with which a note says that correct algorithms are wrong."""
HEAVY_TAIL = 0.5
"""Pareto shape above which the variance of the terms is infinite and standard errors mislead."""
MIN_TERMS_FOR_TAIL = 200
"""Least terms for a tail fit: false alarms on Gaussian pairs are 7% at 100 terms, 0.75% at 200."""
FEWEST_IN_TAIL = 5
"""Least different values in a tail for a fit; with fewer, the terms count as having no tail."""


class _Moments(NamedTuple):
    r"""Moments of a sum of independent means, and the degrees of freedom of its variance."""

    value: float
    variance: float
    skewness: float
    freedom: float


def confidence_limit(
    samples: Sequence[np.ndarray],
    level: float,
    sequences: Sequence[Sequences | None] | None = None,
) -> float:
    r"""A number that is above $\sum_i E[s_i]$ with probability `level`, for iid terms $s_i$.

    With $T = (\hat\theta - \theta)/\hat\sigma$, skewness $A$ of $\hat\theta$ and
    $g(t) = t + A t^2/3 + A^2 t^3/27 + A/6$, $g(T)$ is Student's t with $\nu$ degrees of freedom to
    second order; the limit is $\hat\theta - \hat\sigma\,g^{-1}(t_\nu(1 - level))$. $2/\nu$ is the
    relative variance of $\hat\sigma^2$ that its correlation with $\hat\theta$ (which $g$ accounts
    for) leaves unexplained; it is never less than Welch's.

    That holds for terms without rare large values. For all terms a weaker law holds: with
    probability `level` or more the limit is above the sum of the means without the largest terms,
    of mass `unseen_share` on each side. (A lower limit is below the sum of the means without the
    smallest terms.)

    Infinite terms give an infinite limit, and a sample of one term $\mp\infty$.

    Args:
        samples: The terms.
        level: The probability.
        sequences: For each sample how its terms depend on each other (`None`: they do not). Their
            variance and its degrees of freedom are then those of `mean_variance`, and the skewness
            of their mean is that of as many independent terms as their effective sample size.
    """
    infinite = [s[np.isinf(s)] for s in samples]
    if any(part.size for part in infinite):
        return float(np.concatenate(infinite)[0])
    if min(s.size for s in samples) < 2:
        return -np.inf if level < 0.5 else np.inf
    value, variance, skewness, freedom = _moments(samples, sequences or [None] * len(samples))
    if variance == 0.0:
        return value
    from scipy import special

    student = float(special.stdtrit(freedom, 1.0 - level))
    return value - float(np.sqrt(variance)) * _invert(student, skewness)


def unseen_share(num_runs: float, level: float) -> float:
    r"""$1 - \alpha^{1/N}$ with $\alpha = (1 - level)/2$, about $3.7/N$ at 95%.

    N runs miss all outputs of a region of this probability with probability $\alpha$.
    """
    return float(-np.expm1(np.log(0.5 - level / 2) / num_runs))


def skewness(terms: np.ndarray) -> float:
    """Sample skewness (0 where it is not defined: infinite, constant or fewer than 3 terms)."""
    if terms.size < 3 or np.isinf(terms).any() or terms.std() < 1e-9:
        return 0.0
    deviation = terms - terms.mean()
    return float(_third(deviation) / terms.var(ddof=1) ** 1.5)


def _invert(student: float, skewness: float) -> float:
    """The t at which Hall's transformation g has the value `student`."""
    if abs(skewness) < 1e-6:
        return student - skewness * (1 + 2 * student**2) / 6
    return float(3 / skewness * (np.cbrt(1 + skewness * (student - skewness / 6)) - 1))


def _moments(samples: Sequence[np.ndarray], sequences: Sequence[Sequences | None]) -> _Moments:
    value, variance, third, spread, normal_spread = 0.0, 0.0, 0.0, 0.0, 0.0
    for terms, rows in zip(samples, sequences, strict=True):
        num, mean = float(terms.size), terms.mean()
        deviation = terms - mean
        part, freedom = terms.var(ddof=1) / num, num - 1
        if rows is not None:
            found = mean_variance([terms[each] for each in rows])
            part, freedom, num = found.variance, found.freedom, found.effective
        value, variance = value + mean, variance + part
        third += _third(deviation) / num**2
        scale = float(np.std(terms))
        kurtosis = np.mean((deviation / scale) ** 4) if scale > 0 else 3.0
        spread += part**2 * (kurtosis - 1) / freedom
        normal_spread += part**2 * 2 / freedom
    if variance == 0.0 or normal_spread == 0.0:  # constant terms, or a variance that underflows
        return _Moments(float(value), float(variance), 0.0, np.inf)
    skew = third / variance**1.5
    unexplained = max(spread / variance**2 - skew**2, normal_spread / variance**2)
    return _Moments(float(value), float(variance), float(skew), float(2 / unexplained))


def _third(deviation: np.ndarray) -> float:
    num = deviation.size
    if num < 3:
        return 0.0
    return float(num * np.sum(deviation**3) / ((num - 1) * (num - 2)))


def total_variation_bound(divergence: float) -> float:
    r"""The largest total variation that a symmetrised KL divergence $D$ allows.

    The solution $V$ of $2V\log\frac{1+V}{1-V} = D$.

    Args:
        divergence: The symmetrised divergence $D$ in nats.

    Returns:
        $V$: no probability differs by more.

    Example:
        >>> round(aide.estimation.total_variation_bound(0.1), 3)
        0.157
    """
    if np.isnan(divergence) or divergence == np.inf:
        return 1.0
    if divergence <= 0.0:
        return 0.0
    from scipy import optimize

    upper = min(0.5 * np.sqrt(divergence), 1.0 - 1e-16)

    def excess(v: float) -> float:
        return 2 * v * (np.log1p(v) - np.log1p(-v)) - divergence

    if excess(upper) <= 0:
        return float(upper)
    root: Any = optimize.brentq(excess, 0.0, upper)
    return float(root)


def check_level(level: float) -> None:
    """Raise unless the level is a probability strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")


def pareto_shape(terms: np.ndarray) -> float:
    r"""Shape $k$ of a generalised Pareto fit to the heavier tail of the terms.

    Moments of order $1/k$ and above do not exist. The fit is the empirical Bayes estimate of
    Zhang & Stephens (2009) on the largest $\min(0.2 N, 3\sqrt N)$ deviations on either side.
    """
    centre = np.median(terms)
    return max(_upper_shape(terms - centre), _upper_shape(centre - terms))


def importance_shape(log_weights: np.ndarray) -> float:
    r"""$\hat k$ of Pareto-smoothed importance sampling (Vehtari et al. 2024).

    The shape of the upper tail of the weights $w_i$, with the weak prior of that paper: the fit is
    worth $n$ and $\frac12$ is worth 10, for $n$ weights in the tail. Above 0.7 importance sampling
    from the approximation is unreliable. Regions without any draw do not affect it.
    """
    size = math.ceil(_tail_size(log_weights.size))
    ordered = np.sort(log_weights)
    scaled = np.exp(ordered[-size - 1 :] - ordered[-1])
    excess = scaled[1:] - scaled[0]
    if size < FEWEST_IN_TAIL or excess[-1] <= 0 or excess[0] == excess[-1]:
        return -np.inf  # too few different values, or a single atom: no tail
    return (size * _fit(excess[excess > 0]) + 5.0) / (size + 10.0)


def _tail_size(num: int) -> float:
    """Number of the largest terms that count as the tail, before rounding."""
    return min(0.2 * num, 3 * math.sqrt(num))


def _upper_shape(deviations: np.ndarray) -> float:
    size = int(_tail_size(deviations.size))
    ordered = np.sort(deviations)
    excess = ordered[-size:] - ordered[-size - 1]
    excess = excess[excess > 0]
    if excess.size < FEWEST_IN_TAIL or excess[0] == excess[-1]:
        return -np.inf  # too few different values, or a single atom: no tail
    return _fit(excess)


def _fit(excess: np.ndarray) -> float:
    """Zhang & Stephens' estimate of the shape; `excess` is sorted and positive."""
    num = excess.size
    grid_size = 30 + int(np.sqrt(num))
    quartile = excess[int(num / 4 + 0.5) - 1]
    steps = 1 - np.sqrt(grid_size / (np.arange(1, grid_size + 1) - 0.5))
    theta = 1 / excess[-1] + steps / (3 * quartile)
    shape = np.mean(np.log1p(-theta[:, None] * excess), axis=1)
    # At theta = 0 the law is exponential: -theta / shape tends to one over the mean.
    with np.errstate(invalid="ignore"):
        rate = np.where(theta == 0, 1 / excess.mean(), -theta / shape)
    log_likelihood = num * (np.log(rate) - shape - 1)
    with np.errstate(over="ignore"):  # an infinite sum is a weight of zero
        weights = 1 / np.sum(np.exp(log_likelihood - log_likelihood[:, None]), axis=1)
    best = np.sum(theta * weights)
    return float(np.mean(np.log1p(-best * excess)))


class InterimLook(NamedTuple):
    r"""One of several looks at an estimate to which runs or meta-inference runs are added.

    Law: if look $k$ states its limits at the level $1 - s_k(1 - level)$ and $\sum_k s_k \le 1$,
    then with probability `level` the limits of *all* looks hold (Bonferroni), hence those of the
    last look, whatever the reason to stop. Sizes of later looks must not depend on terms of earlier
    ones.

    Attributes:
        share: $s_k$, the share of the permitted error that this look may spend.
        words: Why this was the last look; empty for an estimate with a single look.
    """

    share: float = 1.0
    words: str = ""

    def level(self, level: float) -> float:
        """The level of this look's limits, so that those of all looks hold with `level`."""
        return 1.0 - (1.0 - level) * self.share


def share_of(number: int) -> float:
    r"""$s_k = 1/(k(k+1))$ for look $k = 1, 2, \dots$; the shares of all looks add up to 1."""
    return 1.0 / (number * (number + 1))
