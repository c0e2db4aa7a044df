r"""Sums of contributions of runs: variance, degrees of freedom, third cumulant, sums over blocks.

The last axis of contributions is that of runs; axes before it are those of estimates.
"""

from typing import NamedTuple

import numpy as np

from aide._core.chains import mean_variances
from aide._core.types import Role
from aide.estimation.errors.overlap import Overlap

LEAST_FREEDOM = 8.0
"""Least degrees of freedom, since single outliers would make limits infinite: a choice."""
LEAST_KURTOSIS = 1.5
"""Least kurtosis of contributions in the degrees of freedom: a choice."""
PER_EFFECTIVE = 2.0
"""Length of a block, in draws per independent draw: a choice."""


class SumMoments(NamedTuple):
    r"""Moments of sums of contributions, one number per sum.

    Attributes:
        variance: Variance of the sum.
        freedom: Degrees of freedom $\nu$ of the variance, whose relative variance is $2/\nu$; small
            if few runs decide, since $\nu$ accounts for the kurtosis of the contributions.
        third: Third cumulant of the sum; 0 if its law is symmetric.
    """

    variance: np.ndarray
    freedom: np.ndarray
    third: np.ndarray


def sum_moments(overlap: Overlap, contributions: np.ndarray) -> SumMoments:
    """Moments of the sums of all contributions of independent runs or of chains."""
    shape = contributions.shape[:-1]
    variance, spread, third = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for role in Role:
        own, num = centred(contributions[..., overlap.part(role)]), overlap.num_runs[role]
        squares = own**2
        second, fourth = squares.mean(axis=-1), np.mean(squares**2, axis=-1)
        moving = (second > 0) & (num > 1)
        rows = overlap.rows[role]
        if rows is None:
            part, freedom = second * num**2 / max(num - 1, 1), np.asarray(float(num - 1))
            third = third + np.sum(own * squares, axis=-1)
        else:
            flat = num * own.reshape(-1, num)
            found = mean_variances([flat[:, each] for each in rows])
            part, freedom = found.variance.reshape(shape), found.freedom.reshape(shape)
            third = third + np.sum(block_sums(overlap, role, own) ** 3, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            kurtosis = np.maximum(fourth / second**2, LEAST_KURTOSIS)
            variance = variance + np.where(moving, part, 0.0)
            spread = spread + np.where(moving, part**2 * (kurtosis - 1) / freedom, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(spread > 0, 2 * variance**2 / spread, np.inf)
    return SumMoments(variance, np.maximum(freedom, LEAST_FREEDOM), third)


def block_sums(overlap: Overlap, role: Role, contributions: np.ndarray) -> np.ndarray:
    """Sums over independent parts of one algorithm's contributions: single runs, or blocks."""
    rows = overlap.rows[role]
    if rows is None:
        return contributions
    size, starts, begin = _block_size(overlap, role), [], 0
    for each in rows:
        starts.append(np.arange(begin, begin + len(each), size))
        begin += len(each)
    ordered = contributions[..., np.concatenate(rows)]
    return np.add.reduceat(ordered, np.concatenate(starts), axis=-1)


def centred(own: np.ndarray) -> np.ndarray:
    """Contributions less their mean over runs."""
    return own - own.mean(axis=-1, keepdims=True)


def _block_size(overlap: Overlap, role: Role) -> int:
    """Number of draws of a chain in a block."""
    share = overlap.share if role is Role.GOLD else 1 - overlap.share
    worth = overlap.num_runs[role.other] * share / (1 - share)  # of equal worth per run
    factor = PER_EFFECTIVE * max(overlap.num_runs[role] / worth, 1.0)
    return int(np.clip(np.ceil(factor), 1, max(overlap.num_runs[role] // 8, 1)))
