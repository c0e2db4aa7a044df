"""A chain whose start misses a mode: what the meter at the gold standard's outputs says.

    python benchmarks/run.py learned/missed

And how far the bound falls when the way back from there is learned, `aide.refine(...,
towards=gold)`.
Modes at -8 and 8, random walk of step 1.5, 200 steps; truth and bias from a grid. In two dimensions
the second coordinate is N(0, 1) and nobody knows the truth.
"""

import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from reference.chain_truth import Truth, walk_truth
from scipy import stats
from support.hard_posteriors import SCALE, log_two_modes, two_modes

import aide
from aide.problems.distributions import Normal
from benchmarks.chains import meta_bias, outputs
from benchmarks.table import Row

STARTS = ((8.0, 1.0), (8.0, 2.0), (2.0, 6.0))
TRIALS = ((False, 100), (False, 1000), (True, 100), (True, 1000))


def measure(chain: Any, gold: Any, truth: Truth | None, runs: int) -> Iterator[Row]:
    """Without and with the way back, 100 and 1,000 reverse particles, two meta-runs."""
    fits, seconds = {}, {}
    for towards in (False, True):
        begun = time.perf_counter()
        given: Any = {"fit": fits[False], "towards": gold} if towards else {}
        fits[towards] = aide.refine(jax.random.key(1), chain, **given).fit
        seconds[towards] = time.perf_counter() - begun
    for towards, number in TRIALS:
        begun = time.perf_counter()
        refined = aide.refine(None, chain, fit=fits[towards], num_reverse=number)
        size = {"num_gold": runs, "num_target": runs, "num_meta_target": 2}
        result = aide.estimate(jax.random.key(2), gold, refined, keep_values=True, **size)
        reach, loose = result.reach(), result.looseness.target
        row: Row = {"towards": "gold" if towards else "", "P": number, "N": runs}
        row["truth"] = None if truth is None else truth.divergence
        row |= {"value": result.value, "std_error": result.std_error}
        bias: Row = {"bias": None, "bias_error": None}
        if truth is not None:
            bias = meta_bias(result, *(truth.log_q(values) for values in outputs(result)))
        row |= bias
        row |= {
            "looseness": None if loose is None else loose.value,
            "note": "missed" if reach.missed else "",
            "share": reach.far_share,
            "difference": reach.difference,
            "slope": reach.slope.value,
            "learning": seconds[False] + (seconds[True] if towards else 0.0),
            "seconds": time.perf_counter() - begun,
        }
        yield row


def line(runs: int = 200) -> Iterator[Row]:
    """One dimension, three starts, the last of which covers both modes."""
    kernel, gold = aide.kernels.RandomWalk(SCALE), aide.Tractable.of(two_modes())
    for mean, std in STARTS:
        log_start = lambda x, m=mean, s=std: stats.norm.logpdf(x, m, s)
        truth = walk_truth([200], log_start, log_two_modes, SCALE, (-30.0, 30.0), 0.02)[200]
        chain = aide.mcmc(Normal(mean, std), two_modes().log_prob, kernel=kernel, num_steps=200)
        for row in measure(chain, gold, truth, runs):
            yield {"start": f"N({mean:g}, {std:g}²)", **row}


class Plane(eqx.Module):
    """Two modes in the first coordinate, N(0, 1) in the second."""

    def sample(self, key: Any) -> Any:
        """An exact draw."""
        keys = jax.random.split(key)
        return jax.numpy.stack([two_modes().sample(keys[0]), jax.random.normal(keys[1])])

    def log_prob(self, x: Any) -> Any:
        """The log density."""
        return two_modes().log_prob(x[0]) + Normal(0.0, 1.0).log_prob(x[1])


def plane(runs: int = 200) -> Iterator[Row]:
    """Two dimensions."""
    start, kernel = Normal(np.array([8.0, 0.0]), 1.0), aide.kernels.RandomWalk(SCALE)
    chain = aide.mcmc(start, Plane().log_prob, kernel=kernel, num_steps=200)
    yield from measure(chain, aide.Tractable.of(Plane()), None, runs)


TABLES = {"line": line, "plane": plane}
