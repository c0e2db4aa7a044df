"""How often do intervals on reference draws that depend on each other hold the divergence?

    python benchmarks/run.py coverage/reference_draws            # some minutes on one core
    python benchmarks/run.py coverage/reference_draws --only estimates --replications 1000

The gold standard's draws are AR(1) chains of standard normals in 2-D, the target is another normal
with 500 independent runs. `terms` computes the terms directly; `estimates` goes through
`aide.ReferenceDraws` and `aide.estimate`. `naive` takes the draws as independent.
"""

from collections.abc import Iterator

import jax
import numpy as np
from support.stored import Normal, ar1, standard_log_joint

import aide
from aide.estimation.interval import confidence_limit
from benchmarks.table import Row

TARGETS = {"wide": (0.5, 1.3), "shifted, narrow": (1.0, 0.8)}
CHAINS = (
    (1, 100, 0.9),
    (1, 200, 0.9),
    (1, 500, 0.9),
    (1, 2000, 0.9),
    (4, 100, 0.9),
    (4, 250, 0.9),
    (4, 1000, 0.9),
    (1, 500, 0.0),
    (4, 500, 0.5),
    (1, 5000, 0.99),
    (1, 500, -0.4),
)
LEVELS = (0.025, 0.975)


def terms(replications: int = 2000) -> Iterator[Row]:
    """Coverage of 95% intervals, on terms made here."""
    for kind, (mean, scale) in TARGETS.items():
        target = Normal(mean, scale, 2)
        ratio = lambda x: (0.5 * ((x - mean) / scale) ** 2 - 0.5 * x**2).sum(axis=1)  # noqa: B023
        for num_chains, num_draws, rho in CHAINS:
            rng, inside = np.random.default_rng(3), np.zeros(2)
            rows = tuple(np.arange(num_draws) + c * num_draws for c in range(num_chains))
            for _ in range(replications):
                x = ar1(rng, num_chains, num_draws, rho, 2).reshape(-1, 2)
                y = mean + scale * rng.normal(size=(500, 2))
                samples = ratio(x), -ratio(y)
                for index, sequences in enumerate(((rows, None), None)):
                    low, high = (confidence_limit(samples, q, sequences) for q in LEVELS)
                    inside[index] += low <= target.divergence <= high
            yield _row(kind, num_chains, num_draws, rho, 100 * inside / replications)


def estimates(replications: int = 1000) -> Iterator[Row]:
    """The same through `aide.estimate`, with its default number of draws."""
    for kind, (mean, scale) in TARGETS.items():
        truth = Normal(mean, scale, 2)
        target = aide.Tractable.of(truth)
        for num_chains, num_draws, rho in ((1, 500, 0.9), (4, 1000, 0.9)):
            rng, inside = np.random.default_rng(4), np.zeros(2)
            for seed in range(replications):
                x = ar1(rng, num_chains, num_draws, rho, 2)
                gold = aide.ReferenceDraws(x, standard_log_joint, has_chains=True)
                found = aide.estimate(jax.random.key(seed), gold, target)
                low, high = found.interval()
                inside[0] += low <= truth.divergence <= high
                low, high = (confidence_limit(found.terms, q) for q in LEVELS)
                inside[1] += low <= truth.divergence <= high
            yield _row(kind, num_chains, num_draws, rho, 100 * inside / replications)


def _row(kind: str, num_chains: int, num_draws: int, rho: float, inside: np.ndarray) -> Row:
    return {
        "target": kind,
        "chains": f"{num_chains} x {num_draws:,}",
        "rho": rho,
        "ours": f"{inside[0]:.1f}%",
        "naive": f"{inside[1]:.1f}%",
    }


TABLES = {"terms": terms, "estimates": estimates}
