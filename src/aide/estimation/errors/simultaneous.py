r"""Limits that hold for all lines of a table together.

With contributions $u_{ik}$ of run $i$ to estimate $k$, the errors of all estimates are jointly
normal to first order, with the covariances of the $\sum_i u_{ik}$. The largest of their studentised
sizes is simulated: $\max_k |\sum_i e_i u_{ik}| / s_k$ with standard normal $e_i$, one for every run
or, where runs depend on each other, for every block of them (Chernozhukov, Chetverikov & Kato,
2013, Annals of Statistics 41:2786-2819). Its quantile gives one level for every single estimate,
which then takes Student's quantile with its own degrees of freedom. Bonferroni's level is never
undercut.
"""

from collections.abc import Sequence

import numpy as np

from aide._core.numerics import special
from aide._core.types import Role
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.statistics import Estimated

NUM_DRAWS = 4000
"""Simulated tables; the level of a single limit is then known to 3% of itself at 95%."""
MOST_WORK = 4e9
"""Multiplications for them; larger tables take fewer draws, at least `FEWEST_DRAWS`."""
FEWEST_DRAWS = 500
SEED = 20170
"""Of the simulated tables: the same estimates have the same limits."""
PER_EFFECTIVE = 2.0
"""Blocks hold this many times the draws that are worth one independent draw."""


def single_level(overlap: Overlap, found: Sequence[Estimated], level: float) -> float:
    """The level at which limits of single estimates hold for all together at `level`."""
    alpha = 1 - level
    moving = [one.contributions for one in found if one.std_error > 0]
    if len(moving) < 2:
        return level
    sums = np.concatenate([_blocks(overlap, role, np.stack(moving, axis=1)) for role in Role])
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
    """Student's limits of a single estimate."""
    half = one.std_error * float(special.stdtrit(one.freedom, 0.5 + level / 2))
    return one.value - half, one.value + half


def _blocks(overlap: Overlap, role: Role, contributions: np.ndarray) -> np.ndarray:
    """Sums, about their mean, over what is independent: single runs, or blocks of a chain."""
    mine, rows = contributions[overlap.part(role)], overlap.rows[role]
    mine = mine - mine.mean(axis=0)
    if rows is None:
        return mine
    size = block_size(overlap, role)
    parts = [
        mine[each[b : b + size]].sum(axis=0) for each in rows for b in range(0, len(each), size)
    ]
    return np.stack(parts)


def block_size(overlap: Overlap, role: Role) -> int:
    """Draws of a chain per block."""
    share = overlap.share if role is Role.GOLD else 1 - overlap.share
    other = overlap.num_runs[role.other]
    worth = other * share / (1 - share)  # of equal worth per run: this many runs
    factor = PER_EFFECTIVE * max(overlap.num_runs[role] / worth, 1.0)
    return int(np.clip(np.ceil(factor), 1, max(overlap.num_runs[role] // 8, 1)))
