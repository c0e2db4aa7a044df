"""Total variation of a chain: learned meta-inference beside L-lag couplings and the truth."""

import time
from collections.abc import Iterator

import numpy as np
from reference.chain_truth import walk_truth
from scipy import stats

import aide
from benchmarks.chains import gaussian_problem
from benchmarks.peers.coupling import meeting_times, total_variation_bounds
from benchmarks.table import Row


def coupling(runs: int = 1000) -> Iterator[Row]:
    """Total variation of the walk of `learned/mcmc`: L-lag couplings, our reading, the truth.

    `evaluations` counts log densities in millions: of all couplings, and of all runs, meta-runs and
    pilots. Couplings with L = 100 and as many pairs as we have runs.
    """
    steps, lag = [20, 50, 100, 200], 100
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0.0, 3.0), (1.0, 0.3))]
    truths = walk_truth(steps, logs[0], logs[1], 0.5, (-18.0, 18.0))
    rng = np.random.default_rng(0)
    begun = time.perf_counter()
    times, count = meeting_times(
        rng,
        lambda n: rng.normal(0.0, 3.0, (n, 1)),
        lambda x: stats.norm.logpdf(x[:, 0], 1.0, 0.3),
        0.5,
        lag,
        runs,
    )
    seconds = time.perf_counter() - begun
    bounds = total_variation_bounds(times, lag, steps)
    fit = problem.learn(max(steps))
    grid = np.linspace(-18.0, 18.0, 20_001)
    for num_steps, (bound, error) in zip(steps, bounds, strict=True):
        row = problem.measure(num_steps, runs, truths[num_steps], fit=fit, num_reverse=100)
        gap = np.exp(truths[num_steps].log_q(grid)) - stats.norm.pdf(grid, 1.0, 0.3)
        yield {
            "T": num_steps,
            "true TV": float(0.5 * np.trapezoid(np.abs(gap), grid)),
            "coupling bound": bound,
            "its error": error,
            "our TV": aide.estimation.total_variation_bound(
                row["value"] + 1.645 * row["std_error"]
            ),
            "coupling evaluations": count / 1e6,
            "our evaluations": (3 * runs * 100 * num_steps + 2000 * max(steps)) / 1e6,
            "coupling seconds": seconds,
            "our seconds": row["seconds"],
        }


TABLES = {"coupling": coupling}
