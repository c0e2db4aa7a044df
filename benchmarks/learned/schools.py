"""HMC on eight schools, where nobody knows the truth: three estimates of it that must agree.

    python benchmarks/run.py learned/schools        (a GPU; `--only` for one table)

Learned meta-inference with P = 200 to 20,000 on the same runs; the output density by integrating
over momenta (`reference.momentum_truth`); and the sandwich, whose lower end uses samples.
"""

import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference.momentum_truth import backward_density

import aide
from aide.problems.distributions import Normal
from benchmarks.chains import Problem, meta_bias, outputs
from benchmarks.table import Row

CENTRE = np.array([0.0, 1.0] + [0.0] * 8)
PATH = (0.3, 5)
"""Step size and number of leapfrog steps."""
LENGTHS = (1, 5, 20)
PARTICLES = (200, 2_000, 20_000)
GROUPS = 20
MOMENTA = {1: 20_000, 5: 5_000, 20: 2_500}
"""Walks back per output and group, by T."""


class EightSchools(eqx.Module):
    """Non-centred eight schools (Rubin 1981): mean / 5, log scale, eight standard normals."""

    effects: Any = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
    errors: Any = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)

    def __call__(self, x: Any) -> Any:
        """The log joint density."""
        mean, log_scale, normals = 5.0 * x[0], x[1], x[2:]
        scale = jnp.exp(log_scale)
        prior = Normal(0.0, 1.0).log_prob(x[0]) + jnp.sum(-0.5 * normals**2)
        prior += log_scale - jnp.log1p((scale / 5.0) ** 2)
        errors = (jnp.asarray(self.effects) - mean - scale * normals) / jnp.asarray(self.errors)
        return prior - 0.5 * jnp.sum(errors**2)


def gold_standard(num_particles: int) -> Any:
    """Tempered SMC with 20 temperatures."""
    prior = Normal(CENTRE, np.array([1.0, 2.0] + [1.0] * 8))
    options: Any = {"num_temperatures": 20, "kernel": aide.kernels.Hmc(*PATH)}
    return aide.tempered_smc(prior, EightSchools(), num_particles=num_particles, **options)


def schools_problem(spread: float) -> Problem:
    """HMC from a start whose log scale is N(1, spread^2)."""
    start = Normal(CENTRE, np.array([1.0, spread] + [1.0] * 8))
    return Problem(start, gold_standard(500), EightSchools(), aide.kernels.Hmc(*PATH))


def gold(runs: int = 1000) -> Iterator[Row]:
    """The gold standard against itself: with as many, and with four times as many particles."""
    for num in (500, 2_000):
        result = aide.estimate(
            jax.random.key(4),
            gold_standard(num),
            gold_standard(500),
            num_gold=runs,
            num_target=runs,
        )
        loose = result.looseness.target
        yield {
            "particles": num,
            "N": runs,
            "value": result.value,
            "std_error": result.std_error,
            "looseness of 500": None if loose is None else loose.value,
        }


def schools(runs: int = 1000) -> Iterator[Row]:
    """Start log scale N(1, 0.5^2).

    Canonical rows have N = 100: first as many kernel steps per run as P = 200, then as many
    meta-runs, 50,000 at most, as fit into the seconds that P = 200 takes with learning.
    """
    problem = schools_problem(0.5)
    begun = time.perf_counter()
    fit = problem.learn(max(LENGTHS))
    learning = time.perf_counter() - begun
    print("schools:", *fit.notes, flush=True)
    for steps in LENGTHS:
        log_q, error, seconds = None, 0.0, 0.0
        for num in PARTICLES:
            row, result = timed(problem, steps, runs, fit=fit, num_reverse=num)
            if log_q is None:  # the same outputs for every P
                log_q, error = momentum_log_q(problem, steps, result)
            row["kernel steps"] = (3 * num * steps * runs + 7400 * max(LENGTHS)) / 1e6
            row["learning"] = learning
            yield {**row, **against(result, log_q), "momentum error": error}
            if num == PARTICLES[0]:
                seconds = row["seconds"] + learning
        few = min(runs, 100)
        count = int(1.5 * PARTICLES[0])
        for _ in range(2):
            row, result = timed(problem, steps, few, num_meta_target=count)
            row["kernel steps"] = 2 * count * steps * few / 1e6
            yield row
            gold_seconds = timed(problem, steps, few, num_meta_target=1)[0]["seconds"]
            each = max(row["seconds"] - gold_seconds, 1e-3) / count
            count = int(np.clip(seconds * few / runs / each, count, 50_000))


def timed(
    problem: Problem, steps: int, runs: int, **meta: Any
) -> tuple[Row, aide.estimation.Estimate]:
    """Run twice, so that the seconds are without compilation."""
    problem.run(steps, runs, **meta)
    return problem.run(steps, runs, **meta)


def momentum_log_q(
    problem: Problem, steps: int, result: aide.estimation.Estimate
) -> tuple[Any, float]:
    """Log q at the outputs of both, and the error of its mean difference between them."""
    points = np.concatenate(outputs(result))
    key, start = jax.random.key(5), problem.start.log_prob
    found = backward_density(
        key, start, EightSchools(), PATH, steps, points, GROUPS, MOMENTA[steps]
    )
    num = len(points) // 2
    error, _ = found.spread(np.repeat([1.0 / num, -1.0 / num], num))
    return np.split(found.log_q, 2), error


def against(result: aide.estimation.Estimate, log_q: Any) -> Row:
    """AIDE with the density from momenta in place of meta-inference, and the bias against it."""
    own = result.draws.target.cross.mean() - result.draws.gold.kept(1).mean()
    value = -float(own) + float(log_q[1].mean() - log_q[0].mean())
    return {"value by momenta": value, **meta_bias(result, *log_q)}


def certificate(runs: int = 1000) -> Iterator[Row]:
    """The 95% sandwich, M = 4 for both, P = 2,000; also from a wide start, where some get stuck."""
    for spread in (0.5, 1.5):
        problem = schools_problem(spread)
        fit = problem.learn(max(LENGTHS))
        print("certificate:", *fit.notes, flush=True)
        for steps in LENGTHS:
            row, result = problem.run(
                steps, runs, fit=fit, num_reverse=2_000, num_meta_target=4, num_meta_gold=4
            )
            found = result.sandwich(level=0.95)
            loose = result.looseness.gold
            yield {
                "start": f"log scale N(1, {spread}²)",
                **row,
                "lower": found.lower,
                "upper": found.upper,
                "saturated": found.saturated,
                "gold's looseness": None if loose is None else loose.value,
            }


TABLES = {"gold": gold, "schools": schools, "certificate": certificate}
