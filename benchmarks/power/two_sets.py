"""How often does `compare_draws` claim a difference where there is none, and where there is one?

    python benchmarks/run.py power/two_sets                      # half an hour on one core
    python benchmarks/run.py power/two_sets --only level --replications 400
    python benchmarks/run.py power/two_sets --only hard --replications 400 --jobs 16
    python benchmarks/run.py power/two_sets --only power --replications 20

`level`: both sets have the same distribution; AR(1) chains have rho = 0.9. A claim is a lower limit
above 0, or a function that differs (95%). `hard`: the same where counts are few, or the order of
the draws is not that of a chain. `power`: 500 + 500 independent draws, tests at 5%. Beside
it a two-sample classifier test with a network and with nearest neighbours, and the MMD with
permutations, none of which knows about chains.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy import integrate, stats
from support.chains import ar1

import aide
from benchmarks.peers.two_samples import METHODS
from benchmarks.table import Row

Sampler = Callable[[np.random.Generator], np.ndarray]
NUM = 500
SHARE, DISTANCE = 0.1, 3.0
"""Of the mode that one set misses."""


def normals(size: int) -> Sampler:
    """Independent standard normals."""
    return lambda rng: rng.normal(size=(NUM, size))


def chains(num_chains: int, num_draws: int, size: int) -> Sampler:
    """AR(1) chains of standard normals."""
    return lambda rng: ar1(rng, num_chains, num_draws, 0.9, size)


def heavy(size: int) -> Sampler:
    """Student's t with two degrees of freedom."""
    return lambda rng: rng.standard_t(2.0, size=(NUM, size))


EQUAL: dict[str, Sampler] = {
    "normal, 2-D": normals(2),
    "normal, 20-D": normals(20),
    "AR(1), 2-D, 4 x 1,000": chains(4, 1000, 2),
    "AR(1), 20-D, 4 x 1,000": chains(4, 1000, 20),
    "AR(1), 2-D, 1 x 2,000": chains(1, 2000, 2),
    "Student (2), 5-D": heavy(5),
}


def rare(num: int, size: int) -> Sampler:
    """Coordinates that are 1 with probability 0.004, and 0 otherwise."""
    return lambda rng: (rng.random((num, size)) < 0.004).astype(float)


def spike_and_slab(share: float) -> Sampler:
    """Zeros, and a share of standard normals."""
    return lambda rng: rng.normal(size=(NUM, 2)) * (rng.random((NUM, 2)) < share)


def resampled(rng: np.random.Generator) -> np.ndarray:
    """1,000 rows drawn with replacement from 100."""
    return rng.normal(size=(100, 2))[rng.integers(100, size=1000)]


def walkers_first(rng: np.random.Generator) -> np.ndarray:
    """20 chains of 100 draws in emcee's order: all walkers of a step, then those of the next."""
    return ar1(rng, 20, 100, 0.9, 2).swapaxes(0, 1).reshape(-1, 2)


def sticky_rare(rng: np.random.Generator) -> np.ndarray:
    """A chain that is 1 in 2% of its steps, 10 steps at a time."""
    return np.repeat(rng.random((200, 2)) < 0.02, 10, axis=0).astype(float)


HARD: dict[str, tuple[Sampler, Sampler]] = {
    "3 rare events, 500 and 5,000": (rare(500, 3), rare(5000, 3)),
    "20 rare events, 300 and 3,000": (rare(300, 20), rare(3000, 20)),
    "rare events that last, 2 x 2,000": (sticky_rare, sticky_rare),
    "spike and slab, 5%": (spike_and_slab(0.05), spike_and_slab(0.05)),
    "spike and slab, 50%": (spike_and_slab(0.5), spike_and_slab(0.5)),
    "100 rows resampled, and 500 draws": (resampled, normals(2)),
    "100 rows resampled, twice": (resampled, resampled),
    "walkers first, 20 x 100": (walkers_first, walkers_first),
    "Student (2), 5-D": (heavy(5), heavy(5)),
}


def alternatives(size: int) -> dict[str, tuple[float, Sampler]]:
    """Other distributions than standard normals, with their divergences in nats."""
    first = np.eye(size)[0]
    root = np.eye(size)
    root[:2, :2] = np.linalg.cholesky([[1.0, 0.4], [0.4, 1.0]])

    def far(rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(NUM, size)) + DISTANCE * first * (rng.random((NUM, 1)) < SHARE)

    shifted = lambda rng: rng.normal(size=(NUM, size)) + 0.3 * first
    wide = lambda rng: rng.normal(size=(NUM, size)) * (1 + 0.25 * first)
    correlated = lambda rng: rng.normal(size=(NUM, size)) @ root.T
    return {
        "mean of one coordinate + 0.3": (0.09, shifted),
        "scale of one coordinate x 1.25": (0.5 * (1.25**2 + 1.25**-2) - 1, wide),
        "correlation of two, 0.4": (0.4**2 / (1 - 0.4**2), correlated),
        f"a mode of {SHARE:.0%} missed": (mode_divergence(), far),
    }


def mode_divergence() -> float:
    """Symmetrised KL of a normal and the same with a second mode, by quadrature."""

    def integrand(x: float) -> float:
        p = stats.norm.pdf(x)
        q = (1 - SHARE) * p + SHARE * stats.norm.pdf(x - DISTANCE)
        return float((p - q) * np.log(p / q))

    return float(integrate.quad(integrand, -10, 14, limit=200)[0])


def level(replications: int = 400) -> Iterator[Row]:
    """Differences claimed between draws of one distribution."""
    for index, name in enumerate(EQUAL):
        yield level_row(index, name, replications)


def level_row(index: int, name: str, replications: int) -> Row:
    """One distribution; the peers see the last 500 draws of each set."""
    claims, sample = dict.fromkeys(("ours", "ours, limit above 0", *METHODS), 0), EQUAL[name]
    for seed in range(replications):
        rng = np.random.default_rng((index, seed))
        x, y = sample(rng), sample(rng)
        found = aide.compare_draws(x, y)
        claims["ours"] += found.is_different
        claims["ours, limit above 0"] += found.lower > 0
        last_x, last_y = (part.reshape(-1, part.shape[-1])[-NUM:] for part in (x, y))
        for method, p_value in METHODS.items():
            claims[method] += p_value(last_x, last_y, rng) <= 0.05
    shares = {method: f"{100 * num / replications:.1f}%" for method, num in claims.items()}
    return {"both sets": name, **shares}


def hard(replications: int = 400, jobs: int = 1) -> Iterator[Row]:
    """Differences claimed between equal distributions that are hard to judge."""
    for name in HARD:
        with ProcessPoolExecutor(jobs) as pool:
            calls = [(name, seed) for seed in range(replications)]
            found = list(pool.map(claim, calls, chunksize=4)) if jobs > 1 else map(claim, calls)
            claims, limits = np.array(list(found)).T
        yield {
            "both sets": name,
            "ours": f"{100 * claims.mean():.1f}%",
            "ours, limit above 0": f"{100 * np.mean(limits > 0):.1f}%",
            "largest limit": float(limits.max()),
        }


def claim(call: tuple[str, int]) -> tuple[bool, float]:
    """Whether a difference is claimed, and the lower limit."""
    name, seed = call
    rng = np.random.default_rng((list(HARD).index(name), seed))
    first, second = HARD[name]
    found = aide.compare_draws(first(rng), second(rng))
    return found.is_different, found.lower


def power(replications: int = 100) -> Iterator[Row]:
    """Differences found, and the nats that were shown."""
    for size in (2, 20):
        for index, (name, (truth, sample)) in enumerate(alternatives(size).items()):
            claims, limits = dict.fromkeys(("ours", *METHODS), 0), []
            for seed in range(replications):
                rng = np.random.default_rng((size, index, seed))
                x, y = normals(size)(rng), sample(rng)
                found = aide.compare_draws(x, y)
                claims["ours"] += found.is_different
                limits.append(found.lower)
                for method, p_value in METHODS.items():
                    claims[method] += p_value(x, y, rng) <= 0.05
            shares = {method: f"{100 * num / replications:.0f}%" for method, num in claims.items()}
            yield {
                "difference": f"{name}, {size}-D",
                "nats": truth,
                **shares,
                "limit, median": float(np.median(limits)),
                "limit above the truth": f"{100 * np.mean(np.array(limits) > truth):.0f}%",
            }


TABLES = {"level": level, "hard": hard, "power": power}
