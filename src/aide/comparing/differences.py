"""How far apart two targets are, by runs that belong together."""

import numpy as np

from aide._core.roles import Role
from aide.estimation.means import Mean
from aide.estimation.summary import Estimate


def difference_of(one: Estimate, other: Estimate) -> Mean:
    r"""$\hat D_{one} - \hat D_{other}$ with its standard error, paired run by run.

    The gold standard's runs are the same in both, and run $i$ of either target has the same key,
    so that pairs of terms, on either side, are independent of each other but not within: the
    variance is that of their differences, $\sum_{sides}\mathrm{var}(t_i - t'_i)/N$. Runs that only
    one of the two has are left out of the error's pairs, and count as independent.
    """
    value, variance = 0.0, 0.0
    for role in Role:
        first, second = one.terms.at(role), other.terms.at(role)
        if np.isinf(first).any() or np.isinf(second).any():
            return Mean(one.value - other.value, np.inf)
        value += float(first.mean() - second.mean())
        variance += _variance(first, second)
    return Mean(value, float(np.sqrt(variance)))


def _variance(first: np.ndarray, second: np.ndarray) -> float:
    r"""Of a difference of means whose first terms are pairs: $s^2/N + s'^2/N' - 2nc/(NN')$."""
    both = min(first.size, second.size)
    if both < 2:
        return np.nan
    covariance = float(np.cov(first[:both], second[:both])[0, 1])
    shared = 2 * covariance * both / (first.size * second.size)
    apart = first.var(ddof=1) / first.size + second.var(ddof=1) / second.size
    return max(float(apart) - shared, 0.0)
