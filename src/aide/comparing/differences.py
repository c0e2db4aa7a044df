"""How far apart two targets are, by runs that belong together."""

from collections.abc import Sequence

import numpy as np

from aide._core.types import Role
from aide.estimation.means import Mean
from aide.estimation.summary import Estimate
from aide.estimation.terms import Metas, terms_of


def difference_of(one: Estimate, other: Estimate, metas: Metas | None = None) -> Mean:
    r"""$\hat D_{one} - \hat D_{other}$ with its standard error, paired run by run.

    The gold standard's runs are the same in both, and run $i$ of either target has the same key,
    so that pairs of terms, on either side, are independent of each other but not within: the
    variance is that of their differences, $\sum_{sides}\mathrm{var}(t_i - t'_i)/N$. Runs that only
    one of the two has are left out of the error's pairs, and count as independent.

    Args:
        one: An estimate.
        other: Another one, of the same gold standard.
        metas: M of both algorithms, the same for both bounds, since a bound falls as M grows: the
            largest that both have unless stated.
    """
    metas = metas or common_metas([one, other])
    parts = [terms_of(each.draws, metas) for each in (one, other)]
    value, variance = 0.0, 0.0
    for role in Role:
        first, second = (terms.at(role) for terms in parts)
        if np.isinf(first).any() or np.isinf(second).any():
            return Mean(bound_at(one, metas) - bound_at(other, metas), np.inf)
        value += float(first.mean() - second.mean())
        variance += _variance(first, second)
    return Mean(value, float(np.sqrt(variance)))


def common_metas(estimates: Sequence[Estimate]) -> Metas:
    """The largest M of either algorithm that all estimates have."""
    gold, target = (min(e.draws.side(role).num_meta for e in estimates) for role in Role)
    return Metas(gold, target)


def bound_at(estimate: Estimate, metas: Metas) -> float:
    r"""$\hat D$ from the first M traces of either algorithm."""
    return sum(float(part.mean()) for part in terms_of(estimate.draws, metas))


def _variance(first: np.ndarray, second: np.ndarray) -> float:
    r"""Of a difference of means whose first terms are pairs: $s^2/N + s'^2/N' - 2nc/(NN')$."""
    both = min(first.size, second.size)
    if both < 2:
        return np.nan
    covariance = float(np.cov(first[:both], second[:both])[0, 1])
    shared = 2 * covariance * both / (first.size * second.size)
    apart = first.var(ddof=1) / first.size + second.var(ddof=1) / second.size
    return max(float(apart) - shared, 0.0)
