r"""Shares below quantiles and in intervals, as functions of two distributions.

The conventions are those of `aide.estimation.errors.quantities`. Outputs are sorted once for all
quantiles of a variable.
"""

from typing import NamedTuple

import numpy as np

from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantities import normalised
from aide.estimation.errors.statistics import Statistic

QUANTILES = (0.05, 0.5, 0.95)
"""Quantiles of the gold standard below which the target's shares are reported: a convention."""
CONTENT = 0.9
"""Content of the target's central interval whose probability is reported: a convention."""
NEIGHBOURS = 3.0
r"""Number of neighbours, in $\sqrt N$, for the ratio of densities at a quantile: a choice."""


class Sorted(NamedTuple):
    """Weights of one algorithm in the order of a variable.

    Attributes:
        weights: Weights in that order.
        below: Weight at or below every output.
        effective: Number of equal weights that vary as much.
    """

    weights: np.ndarray
    below: np.ndarray
    effective: float


class Ranked(NamedTuple):
    """Variables with both weighted samples in their order.

    Attributes:
        x: Values at all outputs.
        ordered: Values in rising order.
        gold: Weights as the gold standard, in that order.
        target: Weights as the target, in that order.
    """

    x: np.ndarray
    ordered: np.ndarray
    gold: Sorted
    target: Sorted


class _SampleQuantile(NamedTuple):
    """A quantile of one sample: the value, and the rank of the last output with that value."""

    value: np.ndarray
    rank: np.ndarray


def ranked_by(overlap: Overlap, x: np.ndarray) -> Ranked:
    """Sort both weighted samples by every variable."""
    order, samples = _order_of(x), []
    for weights in (overlap.as_gold, overlap.as_target):
        own = weights[order]
        effective = weights.sum() ** 2 / np.sum(weights**2)
        samples.append(Sorted(own, np.cumsum(own, axis=-1), max(float(effective), 1.0)))
    return Ranked(x, np.take_along_axis(x, order, axis=-1), *samples)


def _order_of(x: np.ndarray) -> np.ndarray:
    """The order of values, of runs where values are equal; that takes five times as long."""
    order = np.argsort(x, axis=-1)
    ordered = np.take_along_axis(x, order, axis=-1)
    if np.any(ordered[..., 1:] == ordered[..., :-1]):
        return np.argsort(x, axis=-1, kind="stable")
    return order


def share_below(overlap: Overlap, ranked: Ranked, level: float) -> Statistic:
    r"""$q(x \le Q_p(level))$: the target's share below a quantile of the gold standard."""
    place = _quantile(ranked, ranked.gold, level)
    share, reached = _share_at(ranked.target, place), _share_at(ranked.gold, place)
    slope = _density_ratio(ranked.target, ranked.gold, place)
    below = (ranked.x <= place.value[..., None]).astype(float)
    in_gold = slope[..., None] * (reached[..., None] - below)
    influences = normalised(overlap, in_gold, below - share[..., None])
    # The share at the sample's quantile is a step away from `level`, by the same step in both.
    value = share + slope * (level - reached)
    return Statistic(value, *influences, is_probability=True, is_share=True)


def interval_content(overlap: Overlap, ranked: Ranked) -> Statistic:
    r"""$p(Q_q(0.05) < x \le Q_q(0.95))$: probability of the target's central 90% interval."""
    tail = (1 - CONTENT) / 2
    low, high = (_quantile(ranked, ranked.target, level) for level in (tail, 1 - tail))
    content = value = _share_at(ranked.gold, high) - _share_at(ranked.gold, low)
    in_target, inside = np.zeros(ranked.x.shape), np.zeros(ranked.x.shape)
    for place, level, sign in ((low, tail, 1.0), (high, 1 - tail, -1.0)):
        reached = _share_at(ranked.target, place)
        slope = sign * _density_ratio(ranked.gold, ranked.target, place)
        below = (ranked.x <= place.value[..., None]).astype(float)
        in_target += slope[..., None] * (below - reached[..., None])
        inside -= sign * below
        value = value + slope * (reached - level)
    influences = normalised(overlap, inside - content[..., None], in_target)
    return Statistic(value, *influences, is_probability=True, is_share=True)


def _quantile(ranked: Ranked, sample: Sorted, level: float) -> _SampleQuantile:
    """The smallest output at or below which lies that share of the weight."""
    wanted = level * sample.below[..., -1] * (1 - 1e-12)
    first = np.minimum(_number_below(sample.below, wanted), sample.below.shape[-1] - 1)
    value = _taken(ranked.ordered, first)
    rank = np.sum(ranked.ordered <= value[..., None], axis=-1) - 1
    return _SampleQuantile(value, rank)


def _share_at(sample: Sorted, place: _SampleQuantile) -> np.ndarray:
    """The share of the weight at or below a value."""
    return _taken(sample.below, place.rank) / sample.below[..., -1]


def _density_ratio(numerator: Sorted, denominator: Sorted, place: _SampleQuantile) -> np.ndarray:
    """Ratio of both weights among the outputs nearest in rank, half of these on either side.

    Ranks are those of the denominator's weight, so that the neighbours hold enough weight.
    """
    below = denominator.below
    total, middle = below[..., -1], _taken(below, place.rank)
    reach = total * 0.5 * NEIGHBOURS / np.sqrt(denominator.effective)
    # All outputs of the numerator may lie beyond the outermost outputs of the denominator.
    reach = np.minimum(reach, np.minimum(0.5 * middle, 0.5 * (total - middle)))
    first, last = (_number_below(below, middle + sign * reach) for sign in (-1, 1))
    rank = np.arange(below.shape[-1])
    near = (rank >= first[..., None]) & (rank <= last[..., None])
    top, bottom = (np.sum(each.weights * near, axis=-1) for each in (numerator, denominator))
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), 0.0)


def _number_below(rising: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How many entries are smaller, which is the place of the first that is not."""
    return np.sum(rising < wanted[..., None], axis=-1)


def _taken(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The entry at one index of every row."""
    return np.take_along_axis(array, index[..., None], axis=-1)[..., 0]
