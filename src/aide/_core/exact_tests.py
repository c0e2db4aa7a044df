r"""Tests that are exact for every sample size and every tail: bets, and orders.

**A mean may not be too large** (`log_wealths`). For independent runs with $G_i \ge 0$,
$0 \le L_i \le 1$ and $E[G_i] \le E[L_i]$, the wealth
$\prod_i \{1 + \lambda(G_i - L_i)\}$ has no negative factor for $0 \le \lambda \le 1$, and a mean of
at most 1. By Markov's inequality it exceeds $1/\alpha$ with probability at most $\alpha$: exactly,
for every sample size and every tail of $G$, the infinite mean included. The average of wealths over
$\lambda$ and over several such pairs has a mean of at most 1 as well, so nothing is chosen after
the fact (test martingales: Ville 1939; Waudby-Smith & Ramdas 2024).

Bets thereby prove that a mean is too *large*. They never prove that a mean is too small: rare large
terms, which no run has shown, may make up for a small average.

**A bounded mean is 0** (`log_capital`). For independent $d_i$ between -1 and 1 with mean 0 the
capital $\prod_i(1 + \lambda_i d_i)$, with stakes $|\lambda_i| < 1$ that depend on earlier terms
alone, is a martingale: it ever exceeds $1/\alpha$ with probability at most $\alpha$.

**An order may be the wrong way round** (`order_p_values`). Law 2, detailed balance and the exchange
of exact draws and outputs all have this form: given the two observations, but not which of them is
which, the order seen has a *known* probability $1/(1 + e^{-g})$, for every algorithm. So a
statistic $T$ is, given everything but the orders, a sum of independent variables with two known
values each. Nothing has to be estimated.
"""

import numpy as np

from aide._core.numerics import special

STAKES = 0.9 * 0.6 ** np.arange(16.0)
r"""The 16 stakes $\lambda$ over which wealth is averaged, from 0.9 down to 4e-4.

A choice: every average wealth is valid. Small stakes win where gains have long tails, large stakes
where differences are small and steady; a geometric grid has one near the best for both.
"""
MAX_LOG_GAIN = 40.0
"""Largest log of a gain, in nats; larger ones are cut, which can only lower the wealth.

From double precision: `FACTORS_PER_LOG` factors of $e^{40}$ multiply to $10^{139}$, below the
largest number, $10^{308}$.
"""
FACTORS_PER_LOG = 8
"""Number of factors that are multiplied before one logarithm is taken of the product.

A logarithm costs more than a product; with `MAX_LOG_GAIN`, 8 factors cannot overflow.
"""
MAX_STAKE = 0.9
"""Largest share of the capital that one term may lose.

A choice: any value below 1 is valid, and keeps the capital positive.
"""
PRIOR_SQUARE = 0.25
"""Square of one imagined term, which is added to the squares of the terms that were seen.

A choice: a term of size 1/2 keeps the first stakes small while the variance is unknown.
"""


def log_wealths(log_gains: np.ndarray, losses: np.ndarray) -> np.ndarray:
    r"""$\log\frac1{16}\sum_\lambda\prod_i\{1 + \lambda(G_i - L_i)\}$, one number per column.

    Args:
        log_gains: $\log G_i$: one row per run, one column per pair of gains and losses.
        losses: $L_i$ between 0 and 1, of the same shape.
    """
    net_gains = np.exp(np.minimum(log_gains, MAX_LOG_GAIN)) - losses
    padding = np.zeros((-len(net_gains) % FACTORS_PER_LOG, net_gains.shape[1]))
    blocks = np.concatenate([net_gains, padding]).reshape(FACTORS_PER_LOG, -1, padding.shape[1])
    wealths = [np.log(np.prod(1 + stake * blocks, axis=0)).sum(axis=0) for stake in STAKES]
    return np.logaddexp.reduce(wealths, axis=0) - np.log(STAKES.size)


def log_average(log_wealth: np.ndarray) -> float:
    """Return the log of the average wealth of all columns."""
    return float(np.logaddexp.reduce(log_wealth) - np.log(log_wealth.size))


def wealth_p_value(log_wealth: float) -> float:
    """Return the p-value of a wealth by Markov's inequality: one over the wealth, at most 1."""
    return float(np.exp(min(-log_wealth, 0.0)))


def log_capital(differences: np.ndarray) -> np.ndarray:
    """Return the log capital after each bet on terms between -1 and 1, whose mean should be 0.

    The stake on a term is the mean of all earlier terms divided by their variance; there is no bet
    on the first term.

    Args:
        differences: The terms, in the order in which they are bet on.
    """
    index = np.arange(1, differences.size)
    stakes = np.cumsum(differences)[:-1] / index
    stakes = stakes / ((PRIOR_SQUARE + np.cumsum(differences**2)[:-1]) / index)
    return np.cumsum(np.log1p(np.clip(stakes, -MAX_STAKE, MAX_STAKE) * differences[1:]))


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
