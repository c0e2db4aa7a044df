r"""Limits that hold for all lines of a table together.

With contributions $u_{ik}$ of run $i$ to estimate $k$, the errors of all estimates are jointly
normal to first order, with the covariances of the $\sum_i u_{ik}$. The largest studentised error is
simulated: $\max_k |\sum_i e_i u_{ik}| / s_k$ with standard normal $e_i$, one for every run or, if
runs depend on each other, for every block of runs (Chernozhukov, Chetverikov & Kato, 2013, Annals
of Statistics 41:2786-2819). Its quantile gives one level for every single estimate, whose limits
are Student's with the estimate's own degrees of freedom. The level is never below Bonferroni's.

Student's limits are symmetric, but laws of estimates are not if few runs carry large contributions,
if a value is not a linear function of the runs, or if a share is near 0 or 1. That matters most in
the tails, where limits of whole tables lie. One side is then lengthened; the other is never
shortened. Shares have limits on the scale of log odds. All others have $w/(1 - bw)^2$
standard errors with $w = \pm z + s/6$ and $b = s/6 + c/2$, for skewness $s$ and curvature $c$: to
second order the limits of DiCiccio & Efron (1992, Biometrika 79:231-245).
"""

from collections.abc import Sequence

import numpy as np

from aide._core.numerics import special
from aide._core.types import Role
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.statistics import Estimated

NUM_DRAWS = 4000
"""Number of simulated tables; the level of a single limit is then known to 3% of itself at 95%."""
MOST_WORK = 4e9
"""Largest number of multiplications; larger tables take fewer draws: a choice."""
FEWEST_DRAWS = 500
"""Least number of simulated tables, and number in a batch: a choice."""
SEED = 20170
"""Seed of the simulated tables: the same estimates always have the same limits."""
LEAST_SLOPE = 0.2
"""Least $1 - bw$: limits of skewed estimates are at most 25 times as long as $w$; a choice."""


def single_level(overlap: Overlap, found: Sequence[Estimated], level: float) -> float:
    """The level at which limits of single estimates hold for all together at `level`."""
    alpha = 1 - level
    moving = [one.contributions for one in found if one.std_error > 0]
    if len(moving) < 2:
        return level
    sums = np.concatenate([overlap.block_sums(role, np.stack(moving, axis=1)) for role in Role])
    scale = np.sqrt(np.sum(sums**2, axis=0))
    sums = sums[:, scale > 0] / scale[scale > 0]
    if not sums.size:
        return level
    if sums.shape[1] < sums.shape[0]:  # a root of the correlations, which has fewer rows
        values, vectors = np.linalg.eigh(sums.T @ sums)
        sums = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    num = int(np.clip(MOST_WORK / sums.size, FEWEST_DRAWS, NUM_DRAWS))
    random, largest = np.random.default_rng(SEED), []
    for begin in range(0, num, FEWEST_DRAWS):
        size = min(FEWEST_DRAWS, num - begin)
        largest.append(np.abs(random.standard_normal((size, len(sums))) @ sums).max(axis=1))
    critical = float(np.quantile(np.concatenate(largest), level))
    return 1 - max(2 * float(special.ndtr(-critical)), alpha / len(moving))


def limits_of(one: Estimated, level: float) -> tuple[float, float]:
    """Student's limits of a single estimate, lengthened where its law is skewed."""
    z = float(special.stdtrit(one.freedom, 0.5 + level / 2))
    low, high = (float(one.value + sign * z * one.std_error) for sign in (-1, 1))
    ends = _share_limits(one, z) if one.is_share else _skewed_limits(one, z)
    return min(low, ends[0]), max(high, ends[1])


def _share_limits(one: Estimated, z: float) -> tuple[float, float]:
    """Limits on the scale of log odds; the share itself if its error is too large for them."""
    share, error = one.value, one.std_error
    if not error < share * (1 - share):
        return share, share
    odds, half = special.logit(share), z * error / (share * (1 - share))
    return float(special.expit(odds - half)), float(special.expit(odds + half))


def _skewed_limits(one: Estimated, z: float) -> tuple[float, float]:
    """Limits correct to second order, from skewness and curvature."""
    bias = one.skewness / 6
    slope = bias + one.curvature / 2
    low, high = (w / max(1 - slope * w, LEAST_SLOPE) ** 2 for w in (bias - z, bias + z))
    return one.value + one.std_error * low, one.value + one.std_error * high
