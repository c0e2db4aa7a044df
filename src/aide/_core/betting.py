r"""Bets against a hypothesis: what they win is evidence at every sample size and every tail.

**A mean may not be too large** (`log_wealths`). For independent runs with $G_i \ge 0$,
$0 \le L_i \le 1$ and $E[G_i] \le E[L_i]$, the wealth
$\prod_i \{1 + \lambda(G_i - L_i)\}$ has no negative factor for $0 \le \lambda \le 1$, and a mean of
at most 1. By Markov's inequality it exceeds $1/\alpha$ with probability at most $\alpha$: exactly,
for every sample size and every tail of $G$, the infinite mean included. The average of wealths over
$\lambda$ and over several such pairs has a mean of at most 1 as well, so nothing is chosen after
the fact (test martingales: Ville 1939; Waudby-Smith & Ramdas 2024).

A mean that is too *large* is thereby proved; one that is too small never is, since the rare large
terms that would make up for it may not have been seen.

**A bounded mean is 0** (`log_capital`). For independent $d_i$ between -1 and 1 with mean 0 the
capital $\prod_i(1 + \lambda_i d_i)$, with stakes $|\lambda_i| < 1$ that depend on earlier terms
alone, is a martingale: it ever exceeds $1/\alpha$ with probability at most $\alpha$.
"""

import numpy as np

STAKES = 0.9 * 0.6 ** np.arange(16.0)
r"""The 16 values of $\lambda$ over which wealth is averaged, from 0.9 down to 4e-4."""
MOST_LOG_GAIN = 40.0
"""Nats to which the logs of gains are cut, which can only lower the wealth."""
BLOCK = 8
"""Factors multiplied before their logarithm is taken, which costs more; 8 cannot overflow."""
MOST_STAKE = 0.9
"""Largest share of the capital that one term may lose."""


def log_wealths(log_gains: np.ndarray, losses: np.ndarray) -> np.ndarray:
    r"""$\log\frac1{16}\sum_\lambda\prod_i\{1 + \lambda(G_i - L_i)\}$, one number per column."""
    wins = np.exp(np.minimum(log_gains, MOST_LOG_GAIN)) - losses
    rest = -len(wins) % BLOCK
    wins = np.concatenate([wins, np.zeros((rest, wins.shape[1]))])
    blocks = wins.reshape(BLOCK, -1, wins.shape[1])
    found = [np.log(np.prod(1 + stake * blocks, axis=0)).sum(axis=0) for stake in STAKES]
    return np.logaddexp.reduce(found, axis=0) - np.log(STAKES.size)


def log_average(log_wealth: np.ndarray) -> float:
    """The log of the average wealth of all columns."""
    return float(np.logaddexp.reduce(log_wealth) - np.log(log_wealth.size))


def wealth_p_value(log_wealth: float) -> float:
    """Markov's inequality: one over the wealth, at most 1."""
    return float(np.exp(min(-log_wealth, 0.0)))


def log_capital(differences: np.ndarray) -> np.ndarray:
    """Log capital after each bet on terms between -1 and 1, whose mean should be 0.

    The stake on a term is the mean over the variance of the terms before; the first is not bet on.
    """
    index = np.arange(1, differences.size)
    stakes = np.cumsum(differences)[:-1] / index
    stakes = stakes / ((0.25 + np.cumsum(differences**2)[:-1]) / index)
    return np.cumsum(np.log1p(np.clip(stakes, -MOST_STAKE, MOST_STAKE) * differences[1:]))
