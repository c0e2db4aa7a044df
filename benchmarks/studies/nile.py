"""How many particles for 0.1 nats on the Nile data, and is the answer of tune right?

    python benchmarks/run.py studies/nile --only tune --filter bootstrap    # a minute or two
    python benchmarks/run.py studies/nile --only keys --first 0 --keys 10   # parts: merge.py
    python benchmarks/run.py studies/nile --only truth --particles 400

The exact posterior of the local-level model is the gold standard of both filters, settings are
doublings. The truth of a number of particles is AIDE with many runs and a large M, and none of the
runs of `tune`: an upper limit on the divergence, so that what it calls "within" is.
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
PARTICLES = (50, 100, 200, 400, 800)
TRUTH_KEY = 10**6
MODEL = nile()
PROPOSALS = {"bootstrap": None, "optimal": MODEL.optimal_proposal()}


def family(proposal: str) -> Callable[[int], aide.ParticleFilter]:
    """Filters by their number of particles."""
    states = MODEL.state_space()
    return lambda num_particles: aide.ParticleFilter(states, num_particles, PROPOSALS[proposal])


def tuned(seed: int, proposal: str, budget: int) -> Tuned:
    """What tune finds with one key."""
    return aide.tune(
        jax.random.key(seed),
        MODEL.posterior(),
        family(proposal),
        {"num_particles": PARTICLES},
        tolerance=TOLERANCE,
        cost="num_particles",
        max_runs=budget,
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


def tune(seed: int = 0, filter: str = "", budget: int = 1000) -> Iterator[Row]:
    """The choice, and an independent estimate with ten times its runs and the same M."""
    for proposal in [filter] if filter else PROPOSALS:
        begun = time.perf_counter()
        found = tuned(seed, proposal, budget)
        seconds = time.perf_counter() - begun
        best = found.best
        row: Row = {"filter": proposal, "particles": "none", "seconds of tune": seconds}
        row |= {"runs of tune": found.num_runs}
        columns = ("runs", "M", "AIDE", "upper limit", "runs, 10 times", "AIDE, 10 times")
        row |= dict.fromkeys((*columns, "upper limit, 10 times", "agrees"))
        if best is not None:
            draws, num = best.estimate.draws, best.planned.num_particles or 0
            runs = max(side.num_runs for side in draws.sides)
            check = measured(proposal, num, 10 * runs, draws.target.num_meta)
            verdict = check.judge(TOLERANCE)
            row |= {
                "particles": str(num),
                "runs": runs,
                "M": draws.target.num_meta,
                "AIDE": f"{best.estimate.value:.4f} ± {best.estimate.std_error:.4f}",
                "upper limit": best.limits[1],
                "runs, 10 times": 10 * runs,
                "AIDE, 10 times": f"{check.value:.4f} ± {check.std_error:.4f}",
                "upper limit, 10 times": verdict.upper,
                "passed": verdict.outcome == "passed",
            }
        yield row


def truth(
    filter: str = "", particles: tuple[int, ...] = PARTICLES, runs: int = 1000, meta: int = 30
) -> Iterator[Row]:
    """AIDE of numbers of particles."""
    for proposal in [filter] if filter else PROPOSALS:
        for num in particles:
            found = measured(proposal, num, runs, meta)
            upper = found.judge(TOLERANCE).upper
            yield {
                "filter": proposal,
                "particles": str(num),
                "AIDE": f"{found.value:.4f} ± {found.std_error:.4f}",
                "upper limit": f"{upper:.4f}",
                "within": upper <= TOLERANCE,
            }


def keys(
    filter: str = "", first: int = 0, keys: int = 100, budget: int = 1000, seconds: float = np.inf
) -> Iterator[Row]:
    """How often tune chooses which setting; whether that is right, `truth` says.

    After `seconds` no further key is begun.
    """
    for proposal in [filter] if filter else PROPOSALS:
        begun = time.perf_counter()
        chosen: Counter[int | None] = Counter()
        runs: Counter[int | None] = Counter()
        for seed in range(first, first + keys):
            if time.perf_counter() - begun > seconds:
                break
            found = tuned(seed, proposal, budget)
            num = None if found.best is None else found.best.planned.num_particles
            chosen[num] += 1
            runs[num] += found.num_runs
            since = time.perf_counter() - begun
            print(f"<!-- {proposal}, key {seed}: {num}, {since:.0f} s -->", flush=True)
        for num in sorted(chosen, key=lambda each: each or 0):
            yield {
                "filter": proposal,
                "particles": "none" if num is None else str(num),
                "keys": chosen[num],
                "runs": runs[num],
            }


TABLES = {"tune": tune, "truth": truth, "keys": keys}
