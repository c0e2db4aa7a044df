"""What refined meta-inference gains for AIS with coarse schedules and SMC with few particles.

    python benchmarks/run.py learned/annealing --only ais1d        (all tables without --only)

Bias is against log q from a grid or from enumeration, on the same draws. Canonical rows have one
meta-run, and as many as cost the kernel steps of the first refined row.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import aide
from aide._core.types import TARGET
from aide.engine.runners.choose import run_pairs
from aide.problems import IsingModel, LinearRegression
from aide.problems.distributions import Normal
from benchmarks.chains import Shifted, gaussian_problem, meta_bias, outputs
from benchmarks.regressions import LogisticRegression
from benchmarks.table import Row

REVERSE = (100, 1000)


class Truth(NamedTuple):
    """The divergence, and log q at outputs."""

    divergence: float
    log_q: Callable[[np.ndarray], np.ndarray]


def compare(gold: Any, smc: aide.smc.Smc, runs: int, truth: Truth | None = None) -> Iterator[Row]:
    """Canonical and refined meta-inference of one algorithm."""
    num, key = smc.num_particles, jax.random.key(2)
    begun = time.perf_counter()
    fit = aide.refine(jax.random.key(1), smc).fit
    learning = time.perf_counter() - begun
    # Per step: a walk back and, with several particles, a run around it; populations when refined.
    equal = REVERSE[0] if num == 1 else 2 * REVERSE[0] // (num + 1)
    refined = [aide.refine(None, smc, num_reverse=number, fit=fit) for number in REVERSE]
    trials = [("canonical", smc, 1), ("canonical", smc, equal)]
    trials += [(f"refined, R = {one.num_reverse}", one, 1) for one in refined]
    for name, algorithm, num_meta in trials:
        begun = time.perf_counter()
        result = aide.estimate(
            key,
            gold,
            algorithm,
            num_gold=runs,
            num_target=runs,
            num_meta_target=num_meta,
            keep_values=True,
        )
        loose = result.looseness.target
        row: Row = {"P": num, "T": fit.num_steps + 1, "meta": name, "M": num_meta}
        if truth is not None:
            row["truth"] = truth.divergence
        row |= {"value": result.value, "std_error": result.std_error}
        if truth is not None:
            row |= meta_bias(result, *(truth.log_q(values) for values in outputs(result)))
        row["looseness"] = None if loose is None else loose.value
        row["seconds"] = time.perf_counter() - begun
        row["learning"] = learning if algorithm is not smc else 0.0
        yield row


def line_truth(temperatures: np.ndarray, scale: float) -> Truth:
    """AIS by random walks from N(0, 3^2) to N(1, 0.3^2), on a grid."""
    grid = np.linspace(-15.0, 15.0, 3001)
    width = grid[1] - grid[0]
    log_p, log_start = stats.norm.logpdf(grid, 1.0, 0.3), stats.norm.logpdf(grid, 0.0, 3.0)
    q, move = np.exp(log_start) * width, stats.norm.pdf(grid[:, None], grid, scale) * width
    for temperature in temperatures[:-1]:
        log_density = (1 - temperature) * log_start + temperature * log_p
        accept = np.exp(np.minimum(0.0, log_density - log_density[:, None]))
        kernel = move * accept
        q = q @ kernel + q * (1 - kernel.sum(axis=1))
    p = np.exp(log_p) * width
    log_ratio = log_p + np.log(width) - np.log(q)
    divergence = np.sum((p - q) * log_ratio)
    return Truth(float(divergence), lambda x: np.interp(x, grid, np.log(q / width)))


def ais1d(runs: int = 1000) -> Iterator[Row]:
    """One dimension, random walk of step 0.5, as AIS."""
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    parts = (problem.start, problem.log_joint)
    for number in (4, 16, 64):
        algorithm = aide.ais(*parts, kernel=problem.kernel, num_temperatures=number)
        truth = line_truth(np.arange(1, number + 1) / number, 0.5)
        yield from compare(problem.posterior, algorithm, runs, truth)


def smc1d(runs: int = 1000) -> Iterator[Row]:
    """The same with 2, 5 and 20 particles."""
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    for number, particles in ((4, 2), (4, 5), (4, 20), (16, 2), (16, 5)):
        algorithm = aide.tempered_smc(
            problem.start,
            problem.log_joint,
            kernel=problem.kernel,
            num_particles=particles,
            num_temperatures=number,
        )
        yield from compare(problem.posterior, algorithm, runs)


def regression(runs: int = 1000) -> Iterator[Row]:
    """The paper's regression, random walks of step 0.3."""
    model = LinearRegression()
    for number, particles in ((4, 1), (4, 3), (10, 3)):
        algorithm = aide.tempered_smc(
            model.prior(),
            model.log_joint,
            kernel=aide.kernels.RandomWalk(0.3),
            num_particles=particles,
            num_temperatures=number,
        )
        yield from compare(model.posterior(), algorithm, runs)


def ais10d(runs: int = 1000) -> Iterator[Row]:
    """Ten dimensions, MALA of step 0.25, from N(1, 3^2) to N(1, 0.3^2)."""
    posterior = Normal(np.ones(10), 0.3)
    for number, particles in ((5, 1), (20, 1), (20, 3)):
        algorithm = aide.tempered_smc(
            Normal(np.ones(10), 3.0),
            Shifted(posterior.log_prob),
            kernel=aide.kernels.Mala(0.25),
            num_particles=particles,
            num_temperatures=number,
        )
        yield from compare(aide.Tractable.of(posterior), algorithm, runs)


def ising_truth(model: IsingModel, temperatures: np.ndarray) -> Truth:
    """AIS by Gibbs sweeps, by enumeration of all configurations."""
    num = int(np.prod(model.shape))
    numbers = np.arange(2**num)
    bits = (numbers[:, None] >> np.arange(num)[::-1]) & 1
    with jax.enable_x64(True):
        grids = jnp.asarray(bits.reshape(-1, *model.shape))
        energy = np.asarray(jax.vmap(model.log_density)(grids))
    q = np.full(2**num, 2.0**-num)
    for temperature in temperatures[:-1]:
        weight = np.exp(temperature * energy)
        for site in range(num):
            other = numbers ^ (1 << (num - 1 - site))
            q = (q + q[other]) * weight / (weight + weight[other])
    log_p = energy - np.logaddexp.reduce(energy)
    divergence = np.sum((np.exp(log_p) - q) * (log_p - np.log(q)))
    place = 2 ** np.arange(num)[::-1]
    return Truth(float(divergence), lambda x: np.log(q)[x.reshape(len(x), -1) @ place])


def ising(runs: int = 1000) -> Iterator[Row]:
    """Nine spins, coupling 0.6, field 0.2, Gibbs sweeps."""
    model = IsingModel(0.6, 0.2, (3, 3))
    for number, particles in ((2, 1), (4, 1), (2, 3)):
        algorithm = aide.tempered_smc(
            model.uniform(),
            model.log_density,
            kernel=model.gibbs(),
            num_particles=particles,
            num_temperatures=number,
        )
        temperatures = np.arange(1, number + 1) / number
        truth = ising_truth(model, temperatures) if particles == 1 else None
        yield from compare(model.exact(), algorithm, runs, truth)


def ionosphere(
    runs: int = 100,
    temperatures: int = 64,
    step: float = 0.2,
    reverse: tuple[int, ...] = REVERSE,
    data: str = "../shared/data/ionosphere.csv",
) -> Iterator[Row]:
    """Looseness alone, of AIS from the prior of a logistic regression in 35 dimensions."""
    model, key = LogisticRegression.of(data), jax.random.key(2)
    start = Normal(np.zeros(model.features.shape[1]), 1.0)
    plain = aide.ais(start, model, kernel=aide.kernels.Mala(step), num_temperatures=temperatures)
    begun = time.perf_counter()
    fit = aide.refine(jax.random.key(1), plain).fit
    learning = time.perf_counter() - begun
    refined = [aide.refine(None, plain, num_reverse=number, fit=fit) for number in reverse]
    for algorithm in (plain, *refined):
        begun = time.perf_counter()
        found = run_pairs(key, algorithm, TARGET, runs)
        gaps = found.log_xi - found.regenerated
        yield {
            "R": getattr(algorithm, "num_reverse", "canonical"),
            "looseness": float(gaps.mean()),
            "std_error": float(gaps.std(ddof=1) / runs**0.5),
            "seconds": time.perf_counter() - begun,
            "learning": 0.0 if algorithm is plain else learning,
        }


TABLES = {
    "ionosphere": ionosphere,
    "ais1d": ais1d,
    "smc1d": smc1d,
    "regression": regression,
    "ais10d": ais10d,
    "ising": ising,
}
