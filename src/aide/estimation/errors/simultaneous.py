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

from functools import cache

import numpy as np

from aide._core.numerics import special
from aide._core.types import Role
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.statistics import Estimated
from aide.estimation.errors.sums import block_sums, centred

NUM_DRAWS = 4000
"""Number of simulated tables; the level of a single limit is then known to 3% of itself at 95%."""
MOST_WORK = 4e9
"""Largest number of multiplications; larger tables take fewer draws: a choice."""
FEWEST_DRAWS = 500
"""Least number of simulated tables, and number in a batch: a choice."""
KEPT = 2**19
"""Number of standard normal draws that are kept for the next table, 4 MiB."""
SEED = 20170
"""Seed of the simulated tables: the same estimates always have the same limits."""
ROUNDING = 1e-13
"""Contributions that are smaller, in standard errors of the estimate, are rounding errors of 0."""
LEAST_SLOPE = 0.2
"""Least $1 - bw$: limits of skewed estimates are at most 25 times as long as $w$; a choice."""


def single_level(overlap: Overlap, found: Estimated, level: float) -> float:
    """The level at which limits of single estimates hold for all together at `level`."""
    is_moving = found.std_error > 0
    moving, std_error = found.contributions[is_moving], found.std_error[is_moving]
    if len(moving) < 2:
        return level
    sums = np.concatenate(
        [block_sums(overlap, r, centred(moving[:, overlap.part(r)])) for r in Role], axis=1
    )
    scale = np.sqrt(np.sum(sums**2, axis=1))
    is_real = scale > ROUNDING * std_error
    sums = sums[is_real] / scale[is_real, None]
    if not sums.size:
        return level
    root = sums.T
    if len(sums) < sums.shape[1]:  # a root of the correlations, which has fewer rows
        values, vectors = np.linalg.eigh(sums @ sums.T)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    num = int(np.clip(MOST_WORK / root.size, FEWEST_DRAWS, NUM_DRAWS))
    critical = float(np.quantile(largest_errors(root, num, level), level))
    return 1 - max(2 * float(special.ndtr(-critical)), (1 - level) / len(moving))


def largest_errors(root: np.ndarray, num: int, level: float) -> np.ndarray:
    """The largest studentised error of simulated tables; exact near the quantile of `level`.

    In single precision all are known to within `rounding`, by the bound on the error of a product
    of vectors. Those within twice as much of the quantile are computed again.
    """
    draws = _normals(num * len(root)).reshape(num, len(root))
    products = draws.astype(np.float32) @ root.astype(np.float32)
    largest = np.maximum(products.max(axis=1), -products.min(axis=1)).astype(float)
    rounding = 2 * np.finfo(np.float32).eps * len(root) ** 1.5
    place = level * (num - 1)
    ends = np.sort(largest)[[int(np.floor(place)), int(np.ceil(place))]]
    near = (largest >= ends[0] - 2 * rounding) & (largest <= ends[1] + 2 * rounding)
    largest[near] = np.abs(draws[near] @ root).max(axis=1)
    return largest


def _normals(num: int) -> np.ndarray:
    """The same standard normal draws every time, the first ones from memory."""
    if num <= KEPT:
        return _kept_normals()[:num]
    return np.random.default_rng(SEED).standard_normal(num)


@cache
def _kept_normals() -> np.ndarray:
    found = np.random.default_rng(SEED).standard_normal(KEPT)
    found.flags.writeable = False
    return found


def limits_of(found: Estimated, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's limits of every single estimate, lengthened where its law is skewed."""
    z = special.stdtrit(found.freedom, 0.5 + level / 2)
    shares, others = _share_limits(found, z), _skewed_limits(found, z)
    low, high = (
        np.where(found.is_share, share, other) for share, other in zip(shares, others, strict=True)
    )
    half = z * found.std_error
    return np.minimum(found.value - half, low), np.maximum(found.value + half, high)


def _share_limits(found: Estimated, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Limits on the scale of log odds; the share itself if its error is too large for them."""
    share, error = found.value, found.std_error
    possible = error < share * (1 - share)
    inside = np.where(possible, share, 0.5)
    odds, half = special.logit(inside), z * error / (inside * (1 - inside))
    low, high = special.expit(odds - half), special.expit(odds + half)
    return np.where(possible, low, share), np.where(possible, high, share)


def _skewed_limits(found: Estimated, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Limits correct to second order, from skewness and curvature."""
    bias = found.skewness / 6
    slope = bias + found.curvature / 2
    low, high = (w / np.maximum(1 - slope * w, LEAST_SLOPE) ** 2 for w in (bias - z, bias + z))
    return found.value + found.std_error * low, found.value + found.std_error * high
