r"""How often upper limits of `aide.measure_convergence` hold, beside those of an estimate.

    python benchmarks/run.py coverage/convergence          # under a minute

Tractable pairs with known divergence, N = 200 + 200 runs, one-sided 95% limits: of the means of
AIDE's own terms, and of $\ell\tanh(\ell/2)$ (`aide.estimation.sandwich.balance.balanced_terms`).
In the last three pairs a share of the target's runs sits at 6, as chains do that have not arrived.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from aide.estimation.interval import confidence_limit
from benchmarks.table import Row

NUM_RUNS, LEVEL = 200, 0.95
GRID = np.linspace(-40.0, 40.0, 160_001)


class Target(NamedTuple):
    """(1 - share) N(mean, scale²) + share N(6, 1), against N(0, 1)."""

    name: str
    mean: float
    scale: float
    share: float = 0.0

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """All runs of one replication."""
        body = rng.normal(self.mean, self.scale, NUM_RUNS)
        stuck = rng.normal(6.0, 1.0, NUM_RUNS)
        return np.where(rng.random(NUM_RUNS) < self.share, stuck, body)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Log of N(0, 1) over the target."""
        body = norm.logpdf(x, self.mean, self.scale) + np.log1p(-self.share)
        if self.share:
            body = np.logaddexp(body, norm.logpdf(x, 6.0, 1.0) + np.log(self.share))
        return norm.logpdf(x) - body


TARGETS = (
    Target("N(0.1, 1)", 0.1, 1.0),
    Target("N(1, 1)", 1.0, 1.0),
    Target("N(3, 1)", 3.0, 1.0),
    Target("N(0, 1.5²)", 0.0, 1.5),
    Target("N(0, 3²)", 0.0, 3.0),
    Target("N(0, 0.5²)", 0.0, 0.5),
    Target("5% not arrived", 0.0, 1.0, 0.05),
    Target("1% not arrived", 0.0, 1.0, 0.01),
    Target("0.3% not arrived", 0.0, 1.0, 0.003),
)


def measure(target: Target, rng: np.random.Generator, replications: int) -> Row:
    """One row of the table."""
    log_gold, ratio = norm.logpdf(GRID), target.log_ratio(GRID)
    difference = np.exp(log_gold) - np.exp(log_gold - ratio)
    truth = float(np.sum(difference * ratio) * (GRID[1] - GRID[0]))
    found = np.empty((replications, 2))
    for index in range(replications):
        at_gold = target.log_ratio(rng.normal(size=NUM_RUNS))
        at_target = target.log_ratio(target.sample(rng))
        calm = at_gold * np.tanh(at_gold / 2), at_target * np.tanh(at_target / 2)
        found[index, 0] = confidence_limit((at_gold, -at_target), LEVEL)
        found[index, 1] = confidence_limit(calm, LEVEL)
    own, calmer = (found >= truth).mean(axis=0)
    mean = found.mean(axis=0)
    return {
        "target": target.name,
        "D": f"{truth:.3g}",
        "AIDE's own terms: holds, mean limit": f"{own:.1%}, {mean[0]:.3g}",
        "calm terms: holds, mean limit": f"{calmer:.1%}, {mean[1]:.3g}",
    }


def limits(replications: int = 2000) -> Iterator[Row]:
    """All targets, one after the other with the same random numbers."""
    rng = np.random.default_rng(0)
    for target in TARGETS:
        yield measure(target, rng, replications)


TABLES = {"limits": limits}
