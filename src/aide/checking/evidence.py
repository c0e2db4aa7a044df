"""What one test saw, as a p-value that holds for skewed terms and for many bins."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from aide.estimation.interval import skewness
from aide.estimation.tails import HEAVY_TAIL, pareto_shape

MIN_TERMS = 100
"""Means of fewer terms are not judged."""


@dataclass(frozen=True)
class Evidence:
    r"""The outcome of one test.

    Attributes:
        law: Number of the law.
        variant: The (shrunken) algorithm that was run.
        p_value: Chance of so large a deviation if the law holds, over all bins of this test
            together; `None` if the test could not be made.
        words: What was seen.
        num_runs: Runs of `simulate` it looked at.
        magnitude: A size for the deviation where it has one (such as the total mass of $\xi$).
    """

    law: int
    variant: str
    p_value: float | None
    words: str
    num_runs: int
    magnitude: float | None = None


def mean_p_value(terms: np.ndarray, expected: float = 0.0, bounded: bool = False) -> float | None:
    r"""Two-sided p-value of the mean of independent terms; `None` if their tails are too heavy.

    The normal tail is multiplied by Cramér's factor $e^{|\gamma| |z|^3 / (6\sqrt n)}$, $\gamma$ the
    skewness, so that far out it errs on the side of no alarm.
    """
    terms = np.asarray(terms, np.float64)
    if terms.size < MIN_TERMS or not np.isfinite(terms).all():
        return None
    spread = terms.std(ddof=1)
    if spread <= 1e-12 * max(1.0, np.abs(terms).max()):
        return 1.0 if abs(terms.mean() - expected) < 1e-6 else 0.0
    if not bounded and is_heavy(terms):
        return None
    z = abs(terms.mean() - expected) / spread * np.sqrt(terms.size)
    return tail_p_value(z, skewness(terms), terms.size)


def is_heavy(terms: np.ndarray) -> bool:
    """Whether a standard error of the mean of these terms would mislead."""
    return np.unique(terms).size > 50 and pareto_shape(terms) > HEAVY_TAIL


def tail_p_value(z: float, skewness: float, num: int) -> float:
    """Two-sided normal tail with Cramér's correction, at most 1."""
    log_factor = abs(skewness) * z**3 / (6 * np.sqrt(num))
    log_tail = np.log(2.0) + special.log_ndtr(-z)
    return float(np.exp(min(log_tail + min(log_factor, z**2 / 2), 0.0)))


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
