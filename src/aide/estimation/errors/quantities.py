r"""Means, sds and probabilities of variables, as functions of two distributions.

$p$ is the gold standard, $q$ the target; all are estimated from the weighted samples of an
`Overlap`, each with its influence functions. The last axis of arrays is that of runs; axes before
it are those of variables, all of which are estimated at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.statistics import Statistic, ValueAlong


class Moments(NamedTuple):
    """Means and standard deviations of variables under both weighted samples."""

    gold_mean: np.ndarray
    target_mean: np.ndarray
    gold_sd: np.ndarray
    target_sd: np.ndarray


def moments_of(overlap: Overlap, x: np.ndarray) -> Moments:
    """Means and standard deviations under both weighted samples.

    A variable that is constant where a sample has weight has the standard deviation 0, exactly.
    """
    found = []
    for weights in (overlap.as_gold, overlap.as_target):
        share, near = weights / weights.sum(), x[..., np.argmax(weights)]
        mean = near + (x - near[..., None]) @ share
        found.append((mean, np.sqrt((x - mean[..., None]) ** 2 @ share)))
    (gold_mean, gold_sd), (target_mean, target_sd) = found
    return Moments(gold_mean, target_mean, gold_sd, target_sd)


class Scaled(NamedTuple):
    """Variables in standard deviations from the mean, of the gold standard and of the target."""

    moments: Moments
    by_gold: np.ndarray
    by_target: np.ndarray

    @property
    def powers(self) -> np.ndarray:
        """Functions $z$ and $z^2$ for the controls that are regressed out."""
        return np.stack([self.by_gold, self.by_gold**2], axis=-2)


def scaled_by(moments: Moments, x: np.ndarray) -> Scaled:
    """Variables in standard deviations from the mean under both samples."""
    gold_mean, target_mean, gold_sd, target_sd = (each[..., None] for each in moments)
    return Scaled(moments, (x - gold_mean) / gold_sd, (x - target_mean) / target_sd)


def mean_error(overlap: Overlap, scaled: Scaled) -> Statistic:
    r"""$(E_q x - E_p x)/sd_p$: the bias of the mean in standard deviations of the gold standard."""
    (gold_mean, target_mean, gold_sd, target_sd), z, w = scaled
    value, ratio = (target_mean - gold_mean) / gold_sd, target_sd / gold_sd
    in_gold = -z - 0.5 * value[..., None] * (z**2 - 1)

    def along(directions: np.ndarray) -> ValueAlong:
        gold = _moving(overlap.as_gold, z, directions)
        target = _moving(overlap.as_target, w, directions)

        def value_at(step: np.ndarray) -> np.ndarray:
            (mean, variance), (moved, _) = gold(step), target(step)
            return (value + ratio * moved - mean) / np.sqrt(variance)

        return value_at

    return Statistic(value, *normalised(overlap, in_gold, ratio[..., None] * w), along=along)


def sd_log_ratio(overlap: Overlap, scaled: Scaled) -> Statistic:
    r"""$\log(sd_q/sd_p)$."""
    (_, _, gold_sd, target_sd), z, w = scaled
    value = np.log(target_sd / gold_sd)

    def along(directions: np.ndarray) -> ValueAlong:
        gold = _moving(overlap.as_gold, z, directions)
        target = _moving(overlap.as_target, w, directions)
        return lambda step: value + 0.5 * np.log(target(step)[1] / gold(step)[1])

    influences = normalised(overlap, -0.5 * (z**2 - 1), 0.5 * (w**2 - 1))
    return Statistic(value, *influences, along=along)


def probability_error(overlap: Overlap, x: np.ndarray) -> Statistic:
    r"""$q(A) - p(A)$ for an event, `x` its indicator."""
    gold, target = share_of(overlap.as_gold, x), share_of(overlap.as_target, x)
    influences = normalised(overlap, gold[..., None] - x, x - target[..., None])
    return Statistic(target - gold, *influences, is_probability=True)


def normalised(
    overlap: Overlap, in_gold: np.ndarray, in_target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Influences of self-normalised averages."""
    return in_gold / overlap.as_gold.sum(), in_target / overlap.as_target.sum()


def share_of(weights: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The probability of an event, or the mean of a variable, in a weighted sample."""
    return inside @ (weights / weights.sum())


def _moving(
    weights: np.ndarray, z: np.ndarray, directions: np.ndarray
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of `z`, 0 and 1 at the sample, along directions of multiplicities."""
    share = directions * (weights / weights.sum())
    count, first = share.sum(axis=-1), np.einsum("...i,...i->...", share, z)
    second = np.einsum("...i,...i->...", share * z, z)

    def at(step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = 1 + step * count
        mean = step * first / total
        return mean, (1 + step * second) / total - mean**2

    return at
