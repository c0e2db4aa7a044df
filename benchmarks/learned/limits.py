"""Where learned meta-inference stops: dimension, length, number of modes.

    python benchmarks/run.py learned/limits --only walks        (all tables without --only)

From ten dimensions on two Gaussians are learned for accepted steps, which is what held-out pilots
choose there. N is half of `--runs`.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference.chain_truth import leapfrog_map, radial_truth, walk_truth
from scipy import stats

import aide
from aide.problems.distributions import Normal
from benchmarks.chains import Problem, gaussian_problem
from benchmarks.table import Row

WALKS = {1: 30, 2: 50, 5: 100, 10: 200, 20: 380}
"""Steps by dimension, for a true divergence between 0.1 and 1."""
GRADIENTS: dict[str, dict[int, int]] = {
    "MALA": {10: 8, 30: 14, 100: 24},
    "HMC": {10: 2, 30: 5, 100: 12},
}


def fitted(problem: Problem, dimension: int, steps: int) -> aide.learned.ReverseFit:
    """Learn; see above for the number of Gaussians."""
    options: Any = {"num_components": 2} if dimension >= 10 else {}
    return problem.learn(steps, **options)


def walks(runs: int = 1000) -> Iterator[Row]:
    """Random walk of scale 2.38 0.3 / sqrt(d): start N(1, 3^2), posterior N(1, 0.3^2)."""
    for dimension, steps in WALKS.items():
        scale = 2.38 * 0.3 / dimension**0.5
        problem = gaussian_problem(dimension, aide.kernels.RandomWalk(scale))
        if dimension == 1:
            logs = [lambda x, s=s: stats.norm.logpdf(x, 1.0, s) for s in (3.0, 0.3)]
            truth = walk_truth([steps], logs[0], logs[1], scale, (-17.0, 19.0))[steps]
        else:
            truth = radial_truth([steps], dimension, 3.0, 0.3, 1.0, (1.0, scale))[steps]
        fit = fitted(problem, dimension, steps)
        for num in (100, 1000, 20_000) if dimension == 20 else (100, 1000):
            few = runs // 5 if num > 1000 else runs // 2
            row = problem.measure(steps, few, truth, fit=fit, num_reverse=num)
            yield {"d": dimension, **row}


def gradients(runs: int = 1000) -> Iterator[Row]:
    """MALA of step 0.25 (d/10)^(-1/6), HMC with 8 leapfrog steps of 0.05 (d/10)^(-1/4)."""
    for name, lengths in GRADIENTS.items():
        for dimension, steps in lengths.items():
            size, power, leapfrogs = (0.25, 1 / 6, 1) if name == "MALA" else (0.05, 0.25, 8)
            size *= (dimension / 10) ** -power
            problem = gaussian_problem(dimension, aide.kernels.Hmc(size, leapfrogs))
            path = leapfrog_map(size, leapfrogs, 0.3)
            truth = radial_truth([steps], dimension, 3.0, 0.3, 1.0, path)[steps]
            fit = fitted(problem, dimension, steps)
            row = problem.measure(steps, runs // 2, truth, fit=fit, num_reverse=1000)
            yield {"kernel": name, "d": dimension, **row}


def length(runs: int = 1000) -> Iterator[Row]:
    """Long chains with P = 100: the walk of `walk1d`, and MALA in ten dimensions."""
    lengths = [100, 1000, 3000]
    logs = [lambda x, m=m, s=s: stats.norm.logpdf(x, m, s) for m, s in ((0.0, 3.0), (1.0, 0.3))]
    for dimension in (1, 10):
        kernel = aide.kernels.RandomWalk(0.5) if dimension == 1 else aide.kernels.Mala(0.25)
        problem = gaussian_problem(dimension, kernel, 0.0 if dimension == 1 else 1.0)
        if dimension == 1:
            truths = walk_truth(lengths, logs[0], logs[1], 0.5, (-18.0, 18.0))
        else:
            path = leapfrog_map(0.25, 1, 0.3)
            truths = radial_truth(lengths, 10, 3.0, 0.3, 1.0, path)
        fit = fitted(problem, dimension, max(lengths))
        for steps in lengths:
            row = problem.measure(steps, runs // 2, truths[steps], fit=fit, num_reverse=100)
            yield {"d": dimension, **row}


class Modes(eqx.Module):
    """Equal shares of N(c, 1), the centres c being 8 apart and symmetric about 0."""

    num: int = eqx.field(static=True)

    @property
    def centres(self) -> np.ndarray:
        """Where they are."""
        return 8.0 * (np.arange(self.num) - 0.5 * (self.num - 1))

    def log_prob(self, x: Any) -> Any:
        """The log density."""
        parts = -0.5 * (x - jnp.asarray(self.centres)) ** 2
        return jax.nn.logsumexp(parts) - 0.5 * jnp.log(2 * jnp.pi) - jnp.log(self.num)

    def sample(self, key: Any) -> Any:
        """An exact draw."""
        key_mode, key_x = jax.random.split(key)
        centre = jnp.asarray(self.centres)[jax.random.randint(key_mode, (), 0, self.num)]
        return centre + jax.random.normal(key_x, dtype=centre.dtype)


def modes(runs: int = 1000) -> Iterator[Row]:
    """Random walk of scale 1.5, 200 steps, from N(2, s^2) that covers all modes."""
    for num in (2, 4, 8):
        posterior = Modes(num)
        spread = 3.0 * num
        problem = Problem(
            Normal(2.0, spread),
            aide.Tractable.of(posterior),
            posterior.log_prob,
            aide.kernels.RandomWalk(1.5),
        )
        log_start = lambda x, s=spread: stats.norm.logpdf(x, 2.0, s)

        def log_posterior(x: np.ndarray, posterior: Modes = posterior) -> np.ndarray:
            parts = stats.norm.logpdf(x[:, None], posterior.centres)
            return np.logaddexp.reduce(parts, axis=1) - np.log(posterior.num)

        ends = (-6.0 * spread, 6.0 * spread)
        truth = walk_truth([200], log_start, log_posterior, 1.5, ends, 0.02)[200]
        fit = problem.learn(200)
        for particles in (100, 1000):
            row = problem.measure(200, runs // 2, truth, fit=fit, num_reverse=particles)
            yield {"modes": num, "start": f"N(2, {spread:g}²)", **row}


TABLES = {"walks": walks, "gradients": gradients, "length": length, "modes": modes}
