r"""Observations in an order that might have been the opposite: exact tests at any tail.

Law 2, detailed balance and the exchange of exact draws and outputs all have this form: given the
two observations, but not which of them is which, the order seen has a *known* probability
$1/(1 + e^{-g})$, for every algorithm. So a statistic $T$ is, given everything but the orders,
a sum of independent variables with two known values each. Nothing has to be estimated.
"""

import numpy as np

from aide._core.numerics import special

NEWTON_STEPS = 12
"""Largest number of steps of Newton's method; fewer make a p-value larger, never wrong."""


def sign_p_value(positive: np.ndarray, chance: np.ndarray) -> float:
    r"""Two-sided p-value of the number of successes in trials of different chances.

    Hoeffding (1956): beyond its mean the number has lighter tails than the binomial with the
    average chance, so that the binomial's tail is an upper bound at every sample size.
    """
    num, total, average = positive.size, int(positive.sum()), float(chance.mean())
    if total > num * average + 1:
        tail = special.bdtrc(total - 1, num, average)
    elif total < num * average - 1:
        tail = special.bdtr(total, num, average)
    else:
        return 1.0
    return float(min(2 * tail, 1.0))


def order_p_values(gap: np.ndarray, seen: np.ndarray, other: np.ndarray) -> np.ndarray:
    r"""Two-sided p-values of $\sum T$, one per column of `seen`.

    Chernoff: $P(\sum T \ge t) \le e^{-\lambda t}\prod_i\{\rho_i e^{\lambda a_i} + (1 - \rho_i)
    e^{\lambda b_i}\}$ for every $\lambda \ge 0$, with $\rho = 1/(1 + e^{-g})$. Given the pairs, the
    right-hand side depends on $t$ alone and decreases in $t$, so its smallest value at the sum that
    was seen is an exact p-value.

    Args:
        gap: $g$, the log odds of the order that was seen. Rows with $g = \infty$ are left out.
        seen: $a$, the terms in the order that was seen, shape (runs, columns).
        other: $b$, the terms in the opposite order.
    """
    keep = gap < np.inf
    gap, seen, other = gap[keep], seen[keep], other[keep]
    log_seen, log_other = special.log_expit(gap), special.log_expit(-gap)
    columns = range(seen.shape[1])
    found = [_chernoff(log_seen, log_other, seen[:, k], other[:, k]) for k in columns]
    return np.array(found)


def deviations(gap: np.ndarray, seen: np.ndarray, other: np.ndarray) -> np.ndarray:
    r"""$\sum T$ in standard deviations given the pairs, for words: no p-value depends on it."""
    keep = gap < np.inf
    chance = special.expit(gap[keep])[:, None]
    variance = (chance * seen[keep] ** 2 + (1 - chance) * other[keep] ** 2).sum(axis=0)
    return seen[keep].sum(axis=0) / np.sqrt(np.where(variance > 0, variance, np.inf))


def _chernoff(
    log_seen: np.ndarray, log_other: np.ndarray, seen: np.ndarray, other: np.ndarray
) -> float:
    """Minimise the convex exponent in λ by Newton's method, halving steps that overshoot."""
    differ = seen != other
    log_seen, log_other, seen, other = (a[differ] for a in (log_seen, log_other, seen, other))
    scale = np.maximum(np.abs(seen), np.abs(other)).max(initial=0.0)
    if scale == 0.0:
        return 1.0
    # In units of the largest term, with a positive sum: the other tail is the mirror image.
    unit = scale * (1.0 if seen.sum() > 0 else -1.0)
    seen, other = seen / unit, other / unit
    total = seen.sum()

    def exponent(tilt: float) -> tuple[float, float, float]:
        """The log of the bound and its first two derivatives."""
        log_a, log_b = log_seen + tilt * seen, log_other + tilt * other
        log_sum = np.logaddexp(log_a, log_b)
        share = np.exp(log_a - log_sum)
        slope = (share * seen + (1 - share) * other).sum() - total
        curvature = (share * (1 - share) * (seen - other) ** 2).sum()
        return log_sum.sum() - tilt * total, slope, curvature

    tilt, (value, slope, curvature) = 0.0, exponent(0.0)
    for _ in range(NEWTON_STEPS):
        step = -slope / curvature if curvature > 1e-300 else np.inf
        step = min(step, 1.0 + 4.0 * tilt)
        if tilt + step < 0 or abs(step) < 1e-4 * tilt:
            break
        after = exponent(tilt + step)
        while after[0] > value + 1e-12 and step > 1e-12:
            step /= 2
            after = exponent(tilt + step)
        tilt, (value, slope, curvature) = tilt + step, after
    return float(min(2 * np.exp(min(value, 0.0)), 1.0))
