"""Learned meta-inference for Markov chains against the truth.

    python benchmarks/run.py learned/mcmc --only walk1d        (all tables without --only)

Truths are grids and closed forms (`reference.chain_truth`); `benchmarks.chains` says what bias is.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference.chain_truth import (
    independence_truth,
    langevin_truth,
    leapfrog_map,
    radial_truth,
    walk_truth,
)
from scipy import stats

import aide
from aide.problems import LinearRegression
from aide.problems.distributions import Normal
from benchmarks.chains import Problem, gaussian_problem
from benchmarks.table import Row


def walk1d(runs: int = 1000) -> Iterator[Row]:
    """A random walk: start N(0, 3^2), posterior N(1, 0.3^2), step 0.5."""
    problem = gaussian_problem(1, aide.kernels.RandomWalk(0.5), 0.0)
    logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0.0, 3.0), (1.0, 0.3))]
    truths = walk_truth([20, 50, 100, 1000], logs[0], logs[1], 0.5, (-18.0, 18.0))
    for steps, particles in ((20, 100), (50, 100), (50, 1000), (100, 100), (1000, 100)):
        fit = problem.learn(steps)
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)
    yield problem.measure(50, min(runs, 200), truths[50], num_meta_target=100)


def walk5d(runs: int = 1000) -> Iterator[Row]:
    """A random walk in five dimensions, step 0.32."""
    problem = gaussian_problem(5, aide.kernels.RandomWalk(0.32))
    truths = radial_truth([100], 5, 3.0, 0.3, 1.0, (1.0, 0.32))
    fit = problem.learn(100)
    for particles in (100, 500, 1000):
        yield problem.measure(100, runs, truths[100], fit=fit, num_reverse=particles)


def mala10d(runs: int = 1000) -> Iterator[Row]:
    """MALA in ten dimensions."""
    problem = gaussian_problem(10, aide.kernels.Mala(0.25))
    truths = radial_truth([5, 10, 50], 10, 3.0, 0.3, 1.0, leapfrog_map(0.25, 1, 0.3))
    fit = problem.learn(50)
    for steps, particles in ((5, 500), (10, 500), (50, 100), (50, 500)):
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)


def hmc10d(runs: int = 1000) -> Iterator[Row]:
    """HMC with 8 leapfrog steps of 0.05 in ten dimensions."""
    problem = gaussian_problem(10, aide.kernels.Hmc(0.05, 8))
    truths = radial_truth([2, 5, 20], 10, 3.0, 0.3, 1.0, leapfrog_map(0.05, 8, 0.3))
    fit = problem.learn(20)
    for steps, particles in ((2, 500), (5, 100), (5, 500), (20, 100)):
        yield problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=particles)


def ula(runs: int = 1000) -> Iterator[Row]:
    """Unadjusted Langevin in three dimensions: it never reaches the posterior."""
    for step_size, lengths in ((0.1, (30, 50)), (0.2, (10, 200)), (0.3, (5, 50)), (0.4, (20,))):
        problem = gaussian_problem(3, aide.kernels.Ula(step_size), 0.0)
        truths = langevin_truth(lengths, 3, (0.0, 3.0), 1.0, 0.3, step_size)
        fit = problem.learn(max(lengths))
        for steps in lengths:
            row = problem.measure(steps, runs, truths[steps], fit=fit, num_reverse=100)
            yield {"step size": step_size, **row}


def independence(runs: int = 1000) -> Iterator[Row]:
    """The paper's chain: independence MH on a regression, proposals from the prior."""
    model = LinearRegression()
    problem = Problem(
        model.prior(), model.posterior(), model.log_joint, aide.kernels.Independence(model.prior())
    )

    def log_likelihood(nodes: np.ndarray) -> np.ndarray:
        errors = np.asarray(model.y) - (nodes[:, :1] + nodes[:, 1:] * np.asarray(model.x))
        return stats.norm.logpdf(errors).sum(axis=1)

    steps = [1, 2, 4, 8, 16, 32, 64, 128]
    log_prior = lambda x: stats.norm.logpdf(x).sum(axis=1)
    truths = independence_truth(steps, log_likelihood, log_prior)
    fit = problem.learn(128)
    for num_steps in steps:
        yield problem.measure(num_steps, runs, truths[num_steps], fit=fit, num_reverse=300)


class TwoModes(eqx.Module):
    """Half of N(-8, 1) and half of N(8, 1)."""

    def log_prob(self, x: Any) -> Any:
        """The log density."""
        return jnp.logaddexp(Normal(-8.0, 1.0).log_prob(x), Normal(8.0, 1.0).log_prob(x)) - jnp.log(
            2.0
        )

    def sample(self, key: Any) -> Any:
        """An exact draw."""
        key_side, key_x = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(key_side), 8.0, -8.0)
        return side + jax.random.normal(key_x, dtype=side.dtype)


def bimodal(runs: int = 1000) -> Iterator[Row]:
    """Modes at -8 and 8 that the chain never crosses between, from three starts.

    From the third one it sits in one mode: the bound stays large, as it must.
    """
    modes = TwoModes()
    for mean, std in ((2.0, 6.0), (8.0, 2.0), (8.0, 1.0)):
        start = Normal(mean, std)
        problem = Problem(
            start, aide.Tractable.of(modes), modes.log_prob, aide.kernels.RandomWalk(1.5)
        )
        log_start = lambda x, m=mean, s=std: stats.norm.logpdf(x, m, s)
        truths = walk_truth([200], log_start, _log_modes, 1.5, (-30.0, 30.0), 0.02)
        fit = problem.learn(200)
        row = problem.measure(200, runs, truths[200], fit=fit, num_reverse=100)
        yield {"start": f"N({mean:g}, {std:g}²)", **row}


def _log_modes(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(stats.norm.logpdf(x, -8.0), stats.norm.logpdf(x, 8.0)) - np.log(2.0)


TABLES = {
    "independence": independence,
    "walk1d": walk1d,
    "walk5d": walk5d,
    "mala10d": mala10d,
    "hmc10d": hmc10d,
    "ula": ula,
    "bimodal": bimodal,
}
