r"""Quantities of one number of the output, as functions of two distributions.

$p$ is the gold standard, $q$ the target; all are estimated from the weighted samples of an
`Overlap`, each with its influence functions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.statistics import Statistic

QUANTILES = (0.05, 0.5, 0.95)
"""Quantiles of the gold standard below which the target's shares are reported: a convention."""
CONTENT = 0.9
"""Content of the target's central interval whose probability is reported: a convention."""
NEIGHBOURS = 3.0
r"""Number of neighbours, in $\sqrt N$, for the ratio of densities at a quantile: a choice."""


class Moments(NamedTuple):
    """Means and standard deviations of one number under both weighted samples."""

    gold_mean: float
    target_mean: float
    gold_sd: float
    target_sd: float


def moments_of(overlap: Overlap, x: np.ndarray, counted: np.ndarray | float = 1.0) -> Moments:
    """Means and standard deviations under both weighted samples.

    Args:
        overlap: Weights of all runs.
        x: The number at every output.
        counted: Multiplicity of every run.
    """
    found = []
    for weights in (overlap.as_gold * counted, overlap.as_target * counted):
        share = weights / weights.sum()
        mean = share @ x
        found.append((float(mean), float(np.sqrt(share @ (x - mean) ** 2))))
    (gold_mean, gold_sd), (target_mean, target_sd) = found
    return Moments(gold_mean, target_mean, gold_sd, target_sd)


def mean_error(overlap: Overlap, x: np.ndarray, moments: Moments) -> Statistic:
    r"""$(E_q x - E_p x)/sd_p$: the bias of the mean in standard deviations of the gold standard."""
    _, mean, sd, _ = moments
    value = (mean - moments.gold_mean) / sd
    centred = (x - moments.gold_mean) / sd
    in_gold = -centred - 0.5 * value * (centred**2 - 1)

    def value_of(counted: np.ndarray) -> float:
        found = moments_of(overlap, x, counted)
        return (found.target_mean - found.gold_mean) / found.gold_sd

    influences = _normalised(overlap, in_gold, (x - mean) / sd)
    return Statistic(value, *influences, value_of=value_of)


def sd_log_ratio(overlap: Overlap, x: np.ndarray, moments: Moments) -> Statistic:
    r"""$\log(sd_q/sd_p)$."""
    gold_mean, target_mean, gold_sd, target_sd = moments
    in_gold = -0.5 * (((x - gold_mean) / gold_sd) ** 2 - 1)
    in_target = 0.5 * (((x - target_mean) / target_sd) ** 2 - 1)

    def value_of(counted: np.ndarray) -> float:
        found = moments_of(overlap, x, counted)
        return float(np.log(found.target_sd / found.gold_sd))

    value = float(np.log(target_sd / gold_sd))
    return Statistic(value, *_normalised(overlap, in_gold, in_target), value_of=value_of)


def probability_error(overlap: Overlap, x: np.ndarray) -> Statistic:
    r"""$q(A) - p(A)$ for an event, `x` its indicator."""
    gold, target = _share(overlap.as_gold, x), _share(overlap.as_target, x)
    influences = _normalised(overlap, -(x - gold), x - target)
    return Statistic(target - gold, *influences, is_probability=True)


def share_below(overlap: Overlap, x: np.ndarray, level: float) -> Statistic:
    r"""$q(x \le Q_p(level))$: the target's share below a quantile of the gold standard."""
    order = np.argsort(x, kind="stable")
    quantile = _quantile(x, order, overlap.as_gold, level)
    below = (x <= quantile).astype(float)
    share, reached = _share(overlap.as_target, below), _share(overlap.as_gold, below)
    slope = _density_ratio(overlap.as_target, overlap.as_gold, x, order, quantile)
    influences = _normalised(overlap, -slope * (below - reached), below - share)
    # The share at the sample's quantile is a step away from `level`, by the same step in both.
    value = share + slope * (level - reached)
    return Statistic(value, *influences, is_probability=True, is_share=True)


def interval_content(overlap: Overlap, x: np.ndarray) -> Statistic:
    r"""$p(Q_q(0.05) < x \le Q_q(0.95))$: probability of the target's central 90% interval."""
    order, tail = np.argsort(x, kind="stable"), (1 - CONTENT) / 2
    low, high = (_quantile(x, order, overlap.as_target, one) for one in (tail, 1 - tail))
    inside = ((x > low) & (x <= high)).astype(float)
    content = value = _share(overlap.as_gold, inside)
    in_target = np.zeros(x.size)
    for end, level, sign in ((low, tail, 1.0), (high, 1 - tail, -1.0)):
        below = (x <= end).astype(float)
        reached = _share(overlap.as_target, below)
        slope = sign * _density_ratio(overlap.as_gold, overlap.as_target, x, order, end)
        in_target += slope * (below - reached)
        value += slope * (reached - level)
    influences = _normalised(overlap, inside - content, in_target)
    return Statistic(value, *influences, is_probability=True, is_share=True)


def correlation_error(overlap: Overlap, x: np.ndarray, y: np.ndarray) -> Statistic:
    r"""$\mathrm{artanh}\,r_q - \mathrm{artanh}\,r_p$: the error of a correlation."""
    value, influences = 0.0, []
    for weights, sign in ((overlap.as_gold, -1.0), (overlap.as_target, 1.0)):
        share = weights / weights.sum()
        u, v = (_standardised(share, one) for one in (x, y))
        r = float(np.clip(share @ (u * v), -1 + 1e-9, 1 - 1e-9))
        value += sign * np.arctanh(r)
        influences.append(sign * (u * v - 0.5 * r * (u**2 + v**2)) / (1 - r**2))
    return Statistic(float(value), *_normalised(overlap, *influences))


def _normalised(
    overlap: Overlap, in_gold: np.ndarray, in_target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Influences of self-normalised averages."""
    return in_gold / overlap.as_gold.sum(), in_target / overlap.as_target.sum()


def _standardised(share: np.ndarray, x: np.ndarray) -> np.ndarray:
    centred = x - share @ x
    return centred / np.sqrt(share @ centred**2)


def _share(weights: np.ndarray, inside: np.ndarray) -> float:
    return float(weights @ inside / weights.sum())


def _quantile(x: np.ndarray, order: np.ndarray, weights: np.ndarray, level: float) -> float:
    """The smallest output at or below which lies that share of the weight."""
    total = np.cumsum(weights[order])
    place = np.searchsorted(total, level * total[-1] * (1 - 1e-12))
    return float(x[order[min(place, x.size - 1)]])


def _density_ratio(
    numerator: np.ndarray, denominator: np.ndarray, x: np.ndarray, order: np.ndarray, at: float
) -> float:
    """Ratio of both weights among the outputs nearest in rank, half of these on either side.

    Ranks are those of the denominator's weight, so that the neighbours hold enough weight.
    """
    below = np.cumsum(denominator[order])
    place = np.searchsorted(x[order], at, side="right") - 1
    effective = denominator.sum() ** 2 / np.sum(denominator**2)
    reach = below[-1] * 0.5 * NEIGHBOURS / np.sqrt(max(effective, 1.0))
    # All outputs of the numerator may lie beyond the outermost outputs of the denominator.
    reach = min(reach, 0.5 * below[place], 0.5 * (below[-1] - below[place]))
    first = np.searchsorted(below, below[place] - reach)
    last = np.searchsorted(below, below[place] + reach)
    near = order[first : last + 1]
    bottom = denominator[near].sum()
    return float(numerator[near].sum() / bottom) if bottom > 0 else 0.0


Quantity = Callable[[Overlap, np.ndarray], Statistic]
