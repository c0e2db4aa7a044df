"""Learned meta-inference where the truth takes more work: SGLD and a correlated Gaussian.

    python benchmarks/run.py learned/truth --only sgld        (all tables without --only)

The truth is a grid for SGLD, and very many chains run forwards for the others
(`reference.forward_truth`); its own error is in the rows. Kernel steps, in millions, count
all transitions of all runs, meta-runs and pilots: each costs the same evaluations of the density.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from reference.chain_truth import langevin_truth, leapfrog_map, radial_truth
from reference.forward_truth import Groups, Langevin, forward_density, sgld_cumulants, sgld_truth
from scipy import stats

import aide
from aide.problems.distributions import Normal
from benchmarks.chains import Problem, gaussian_problem, meta_bias, outputs
from benchmarks.table import Row

POINTS = [0.11, 0.18, 0.25, 0.31, 0.38, 0.46, 0.53, 0.62, 0.71, 0.80]
POINTS += [0.92, 1.05, 1.19, 1.36, 1.56, 1.80, 2.11, 2.55, 3.24, 4.68]
BATCHES = np.array(POINTS).reshape(4, 5)
"""Data in order of size: every mini-batch of five pulls elsewhere."""
NUM_PILOTS = 7_400
"""What `refine` runs by default in ten dimensions."""
CHAINS, GROUPS = 32_768, 16
"""Forward chains in a group, and groups, of the forward truth."""


def sgld(runs: int = 1000) -> Iterator[Row]:
    """The mean of 20 points with noise 1 and prior N(0, 2^2), four mini-batches, start N(0, 1)."""
    slope, pulls = 0.25 + BATCHES.size, BATCHES.size * BATCHES.mean(axis=1)
    mean, std = pulls.mean() / slope, slope**-0.5
    log_joint = lambda x: -(x**2) / 8 - 0.5 * jnp.sum((jnp.asarray(BATCHES) - x) ** 2)
    gradient = lambda i, x: jnp.asarray(pulls)[i] - slope * x
    drifts = lambda x: pulls[:, None] - slope * x
    grid = np.arange(-7.0, 8.0, 0.005)
    for h, lengths in ((0.05, (40, 80, 300)), (0.1, (10, 20, 100)), (0.2, (3, 10, 50))):
        kernel = aide.kernels.Sgld(h, gradient, len(BATCHES))
        problem = Problem(Normal(0.0, 1.0), aide.Tractable.of(Normal(mean, std)), log_joint, kernel)
        logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0, 1), (mean, std))]
        truths = sgld_truth(lengths, logs[0], logs[1], drifts, h, grid)
        whole = langevin_truth(lengths, 1, (0.0, 1.0), mean, std, h)
        fit = problem.learn(max(lengths))
        for steps in lengths:
            row = problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=100)
            q = np.exp(truths[steps].log_q(grid)) * 0.005
            middle = float(grid @ q)
            found = [middle, *(float(((grid - middle) ** k) @ q) for k in (2, 3))]
            exact = sgld_cumulants(steps, (0.0, 1.0), pulls, slope, h)
            yield {
                "step size": h,
                **row,
                "Ula": whole[steps].divergence,
                "grid against cumulants": float(np.max(np.abs(found / exact - 1))),
            }


def compare(row: Row, result: aide.estimation.Estimate, log_p: Any, truth: Groups) -> Row:
    r"""Add the truth on the same outputs to a row.

    $D = E_{gold}[l \tanh(l/2)] + E_{target}[l \tanh(l/2)]$ with $l = \log p/q$, which has far less
    noise near 0 than the difference of two means of $l$.
    """
    sizes = [len(side) for side in outputs(result)]
    log_q = np.split(truth.log_q, sizes[:1])
    ratios = [log_p(x) - q for x, q in zip(outputs(result), log_q, strict=True)]
    terms = [ratio * np.tanh(0.5 * ratio) for ratio in ratios]
    signs = np.concatenate([np.full(n, s / n) for n, s in zip(sizes, (1, -1), strict=True)])
    error, bias = truth.spread(signs)
    spread = np.hypot(*(term.std() / len(term) ** 0.5 for term in terms))
    return {
        **row,
        "truth": float(sum(term.mean() for term in terms)),
        "truth_error": float(spread),
        **meta_bias(result, *log_q),
        "error of the forward truth": error,
        "jackknife bias": bias,
    }


class Measured(NamedTuple):
    """A row, the outputs of both algorithms one after the other, and their log q."""

    row: Row
    points: np.ndarray
    log_q: np.ndarray


def against_forward(
    problem: Problem, log_p: Any, h: float, steps: int, runs: int, **meta: Any
) -> Measured:
    """MALA with step size h against forward chains."""
    row, result = problem.run(steps, runs, **meta)
    chain = Langevin(problem.start.sample, problem.start.log_prob, problem.log_joint, h)
    points = np.concatenate(outputs(result))
    begun = time.perf_counter()
    truth = forward_density(jax.random.key(3), chain, steps, points, GROUPS, CHAINS)
    row = compare(row, result, log_p, truth)
    return Measured({**row, "truth seconds": time.perf_counter() - begun}, points, truth.log_q)


def isotropic(runs: int = 1000) -> Iterator[Row]:
    """The forward truth against the exact radial one: MALA in ten dimensions."""
    problem = gaussian_problem(10, aide.kernels.Mala(0.25))
    exact = radial_truth([5, 8, 50], 10, 3.0, 0.3, 1.0, leapfrog_map(0.25, 1, 0.3))
    fit = problem.learn(50, num_components=2)
    log_p = lambda x: stats.norm.logpdf(x, 1.0, 0.3).sum(axis=1)
    for steps in (5, 8, 50):
        row, points, log_q = against_forward(
            problem, log_p, 0.25, steps, runs, fit=fit, num_reverse=100
        )
        gap = log_q - exact[steps].log_q(points)
        yield {
            **row,
            "exact": exact[steps].divergence,
            "log q, mean error": float(gap.mean()),
            "log q, root mean square error": float(np.sqrt((gap**2).mean())),
            "log q, largest error": float(np.abs(gap).max()),
        }


def correlated(runs: int = 1000) -> Iterator[Row]:
    """MALA on a ten-dimensional Gaussian with all correlations 0.8, start N(0, 2^2).

    Canonical rows have N = 100. M = 750 has as many kernel steps per run as P = 500; the other M
    would take as many seconds per run as P = 500 with learning, at the rate seen with M = 750.
    """
    root = np.linalg.cholesky(0.2 * np.eye(10) + 0.8)
    white = np.linalg.inv(root)
    constant = float(np.log(np.diag(white)).sum() - 5 * np.log(2 * np.pi))
    log_density = lambda x: -0.5 * jnp.sum((jnp.asarray(white) @ x) ** 2) + constant
    sample = lambda key: jnp.asarray(root) @ jax.random.normal(key, (10,), float)
    posterior = aide.Tractable(sample, log_density)
    problem = Problem(Normal(np.zeros(10), 2.0), posterior, log_density, aide.kernels.Mala(0.5))
    log_p = lambda x: -0.5 * ((x @ white.T) ** 2).sum(axis=1) + constant
    begun = time.perf_counter()
    fit = problem.learn(100)
    learning = time.perf_counter() - begun
    few = min(runs, 100)
    for steps in (10, 30, 100):
        for num in (100, 500):
            row = timed(problem, log_p, steps, runs, fit=fit, num_reverse=num)
            row["kernel steps"] += NUM_PILOTS * 100 / 1e6
            yield {**row, "learning": learning}
        each = (row["seconds"] + learning) / runs
        row = timed(problem, log_p, steps, few, num_meta_target=750)
        yield row
        num = int(np.clip(750 * each * few / row["seconds"], 750, 100_000))
        yield timed(problem, log_p, steps, few, num_meta_target=num)


def timed(problem: Problem, log_p: Any, steps: int, runs: int, **meta: Any) -> Row:
    """A row of the correlated Gaussian; its seconds are those of a second, compiled run."""
    problem.run(steps, runs, **meta)
    row, _, _ = against_forward(problem, log_p, 0.5, steps, runs, **meta)
    count = 3 * meta.get("num_reverse", 0) + 2 * meta.get("num_meta_target", 0)
    return {**row, "kernel steps": count * steps * runs / 1e6}


TABLES = {"sgld": sgld, "isotropic": isotropic, "correlated": correlated}
