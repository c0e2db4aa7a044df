r"""Bets against a hypothesis: their wealth is evidence for every sample size and every tail.

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
"""

import numpy as np

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
