"""How many particles for 0.1 nats on the Nile data, and is the answer of tune right?

    python benchmarks/run.py studies/nile --only tune               # one key, a minute or two
    python benchmarks/run.py studies/nile --only keys --keys 100    # minutes on 16 cores
    python benchmarks/run.py studies/nile --only truth

The exact posterior of the local-level model is the gold standard of both filters. The truth of a
number of particles is AIDE with many runs and a large M, and none of the runs of `tune`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import jax
import numpy as np

import aide
from aide.problems.linear_gaussian import nile
from aide.tuning import Tuned
from benchmarks.table import Row

TOLERANCE = 0.1
PARTICLES = (50, 100, 200, 300, 400, 600)
TRUTH_KEY = 10**6
MODEL = nile()
PROPOSALS = {"bootstrap": None, "optimal": MODEL.optimal_proposal()}


def family(proposal: str) -> Callable[[int], aide.ParticleFilter]:
    """Filters by their number of particles."""
    states = MODEL.state_space()
    return lambda num_particles: aide.ParticleFilter(states, num_particles, PROPOSALS[proposal])


def tuned(seed: int, proposal: str) -> Tuned:
    """What tune finds with one key."""
    return aide.tune(
        jax.random.key(seed),
        MODEL.posterior(),
        family(proposal),
        {"num_particles": PARTICLES},
        tolerance=TOLERANCE,
        cost="num_particles",
        budget=aide.estimation.Budget(runs=6000),
    )


def measured(proposal: str, num_particles: int, runs: int, meta: int) -> aide.estimation.Estimate:
    """AIDE with runs of its own."""
    return aide.estimate(
        jax.random.key(TRUTH_KEY),
        MODEL.posterior(),
        family(proposal)(num_particles),
        num_gold=runs,
        num_target=runs,
        num_meta_target=meta,
    )


def tune(seed: int = 0) -> Iterator[Row]:
    """The choice, and an independent estimate with ten times its runs."""
    for proposal in PROPOSALS:
        begun = time.perf_counter()
        found = tuned(seed, proposal)
        seconds = time.perf_counter() - begun
        if found.best is None:
            yield {"filter": proposal, "particles": "none", "seconds": round(seconds)}
            continue
        draws, num = found.best.estimate.draws, found.best.planned.num_particles or 0
        runs = 10 * max(side.num_runs for side in draws.sides)
        check = measured(proposal, num, runs, draws.target.num_meta)
        yield {
            "filter": proposal,
            "particles": num,
            "upper limit": found.best.limits[1],
            "runs": found.num_runs,
            "seconds": round(seconds),
            "ten times the runs": f"{check.judge(TOLERANCE).upper:.3g}",
            "agrees": check.judge(TOLERANCE).outcome == "within",
        }


def truth(runs: int = 2000, meta: int = 50) -> Iterator[Row]:
    """AIDE of every number of particles."""
    for proposal in PROPOSALS:
        for num in PARTICLES:
            found = measured(proposal, num, runs, meta)
            low, high = found.interval()
            upper = found.judge(TOLERANCE).upper
            yield {
                "filter": proposal,
                "particles": num,
                "AIDE": found.value,
                "std error": found.std_error,
                "low": low,
                "high": high,
                "calm upper limit": upper,
                "within": upper <= TOLERANCE,
            }


def keys(keys: int = 100, runs: int = 2000, meta: int = 50) -> Iterator[Row]:
    """What tune chooses over many keys, and how often that is truly within the tolerance."""
    for proposal in PROPOSALS:
        begun = time.perf_counter()
        chosen: Counter[int | None] = Counter()
        for seed in range(keys):
            best = tuned(seed, proposal).best
            chosen[None if best is None else best.planned.num_particles] += 1
        seconds = time.perf_counter() - begun
        right = 0
        uppers = {}
        for num, count in sorted((n, c) for n, c in chosen.items() if n is not None):
            uppers[num] = measured(proposal, num, runs, meta).judge(TOLERANCE).upper
            right += count * (uppers[num] <= TOLERANCE)
        yield {
            "filter": proposal,
            "keys": keys,
            "chosen": ", ".join(f"{n}: {c}" for n, c in sorted(chosen.items(), key=str)),
            "upper limits with many runs": ", ".join(f"{n}: {u:.3g}" for n, u in uppers.items()),
            "truly within": right,
            "seconds per key": float(np.round(seconds / keys, 1)),
        }


TABLES = {"tune": tune, "truth": truth, "keys": keys}
