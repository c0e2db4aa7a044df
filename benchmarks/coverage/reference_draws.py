"""How often do intervals on reference draws that depend on each other hold the divergence?

    python benchmarks/run.py coverage/reference_draws            # some minutes on one core
    python benchmarks/run.py coverage/reference_draws --only estimates --replications 1000
    python benchmarks/run.py coverage/reference_draws --only orders --replications 1000 --jobs 16

The gold standard's draws are AR(1) chains of standard normals in 2-D, the target is another normal
with 500 independent runs. `terms` computes the terms directly; `estimates` goes through
`aide.ReferenceDraws` and `aide.estimate`. `orders`: the same for lists in which chains take turns,
and for rows resampled with replacement. `naive` takes the draws as independent.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import jax
import numpy as np
from support.chains import Normal, ar1, standard_log_joint

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


def turns(rng: np.random.Generator) -> np.ndarray:
    """8 chains of 250 at rho = 0.9, all chains of a step, then those of the next."""
    return ar1(rng, 8, 250, 0.9, 2).swapaxes(0, 1).reshape(-1, 2)


def many_turns(rng: np.random.Generator) -> np.ndarray:
    """100 chains of 30, in the same order."""
    return ar1(rng, 100, 30, 0.9, 2).swapaxes(0, 1).reshape(-1, 2)


def resampled(rng: np.random.Generator) -> np.ndarray:
    """1,000 rows drawn with replacement from 100."""
    return rng.normal(size=(100, 2))[rng.integers(100, size=1000)]


def resampled_all(rng: np.random.Generator) -> np.ndarray:
    """2,000 rows drawn with replacement from 2,000."""
    return rng.normal(size=(2000, 2))[rng.integers(2000, size=2000)]


ORDERS = {
    "8 x 250 taking turns": turns,
    "100 x 30 taking turns": many_turns,
    "1,000 of 100 resampled": resampled,
    "2,000 of 2,000 resampled": resampled_all,
}


def orders(replications: int = 1000, jobs: int = 1) -> Iterator[Row]:
    """Coverage with draws that lost the order of their chains, or are copies."""
    for kind in TARGETS:
        for name in ORDERS:
            calls = [(kind, name, seed) for seed in range(replications)]
            with ProcessPoolExecutor(jobs) as pool:
                found = list(pool.map(holds, calls, chunksize=8) if jobs > 1 else map(holds, calls))
            inside = 100 * np.mean(found, axis=0)
            yield {
                "target": kind,
                "draws": name,
                "ours": f"{inside[0]:.1f}%",
                "naive": f"{inside[1]:.1f}%",
            }


def holds(call: tuple[str, str, int]) -> tuple[bool, bool]:
    """Whether our interval holds the divergence, and whether the naive one does."""
    kind, name, seed = call
    target, rng = Normal(*TARGETS[kind], 2), np.random.default_rng((5, seed))
    x, y = ORDERS[name](rng), target.mean + target.scale * rng.normal(size=(500, 2))
    gold = aide.ReferenceDraws(x, lambda v: -0.5 * float(np.sum(v**2)), has_chains=False)
    rows = gold.chains.sequences(np.arange(gold.chains.size))
    draws = gold.take(np.arange(gold.chains.size))
    ratio = lambda v: (0.5 * ((v - target.mean) / target.scale) ** 2 - 0.5 * v**2).sum(axis=1)
    found = []
    for sequences in ((rows, None), None):
        low, high = (confidence_limit((ratio(draws), -ratio(y)), q, sequences) for q in LEVELS)
        found.append(bool(low <= target.divergence <= high))
    return found[0], found[1]


def _row(kind: str, num_chains: int, num_draws: int, rho: float, inside: np.ndarray) -> Row:
    return {
        "target": kind,
        "chains": f"{num_chains} x {num_draws:,}",
        "rho": rho,
        "ours": f"{inside[0]:.1f}%",
        "naive": f"{inside[1]:.1f}%",
    }


TABLES = {"terms": terms, "estimates": estimates, "orders": orders}
