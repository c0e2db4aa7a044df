"""NUTS with fixed step size and metric: learned and canonical meta-inference, and the truth.

    python benchmarks/run.py learned/nuts --only gaussian --runs 1000        (a GPU)
    python benchmarks/run.py learned/nuts --only regression --data ../shared/data/ionosphere.csv

Step sizes and metrics are those of BlackJAX's warm-up. The Gaussian's truth is a histogram of
BlackJAX's chains (`reference.nuts_truth`); for the others more and more reverse particles,
canonical meta-inference with thousands of meta-runs where it can be tight, and the sandwich, whose
lower end uses samples alone, must agree.
"""

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference.chain_truth import Truth
from reference.nuts_truth import radial_nuts_truth

import aide
from aide._core.algorithm import Draw
from aide.problems.distributions import Normal
from benchmarks.chains import Problem, meta_bias, outputs
from benchmarks.learned.schools import CENTRE, EightSchools, gold_standard
from benchmarks.regressions import Laplace, LogisticRegression
from benchmarks.table import Row

SIZE, SPREAD, STEP_SIZE = 20, 3.0, 0.5
"""Of the Gaussian: dimension, the spread of its start in units of the posterior's, step size."""
CANONICAL = 100
"""Meta-runs of canonical rows."""
AT_ONCE = 100_000
"""Canonical estimates that run side by side where they are the truth."""


def rows(
    problem: Problem,
    steps: Sequence[int],
    particles: Sequence[int],
    runs: int,
    truths: dict[int, Truth] | None = None,
    **effort: Any,
) -> Iterator[Row]:
    """Refined and canonical, at every number of steps; what is learned serves all of them.

    Without an exact divergence, the sandwich's lower end stands beside the value. `effort` goes to
    `aide.refine`.
    """
    begun = time.perf_counter()
    fit = problem.learn(max(steps), **effort)
    learning = time.perf_counter() - begun
    print("pilots:", *fit.notes, flush=True)
    for number in steps:
        trials: list[dict[str, Any]] = [
            {"fit": fit, "num_reverse": num, "num_meta_target": 2} for num in particles
        ]
        for meta in [*trials, {"num_meta_target": CANONICAL}]:
            row, result = problem.run(number, runs, **meta)
            truth = None if truths is None else truths[number]
            if truth is not None:
                row |= meta_bias(result, *map(truth.log_q, outputs(result)))
            if truth is None or np.isnan(truth.divergence):
                row["at least"] = result.sandwich(level=0.95).lower
            else:
                row["truth"] = truth.divergence
            yield {"meta": "refined" if "fit" in meta else "canonical", **row, "learning": learning}


def chance_truth(problem: Problem, steps: int, num: int, width: float = 1.0) -> Truth:
    r"""$\log q$ at given outputs by walks back that learn nothing; no divergence.

    A walk draws the momentum $v \sim N(0, s^2 I)$ of every step and one of its origins $x_n$ with
    chance $\propto \gamma(x_n)\,k(y, v, n \mid x_n)$. With width $s = 1$ that is canonical
    meta-inference; a chain that comes down from a wide start is faster than in equilibrium, and a
    larger $s$ meets its steps more often. The log of the mean of so many unbiased estimates is too
    low by half their relative variance over their number: printed, as a mean over outputs.
    """
    gamma = problem.log_joint

    def step_back(y: Any, key: Any) -> Any:
        key_noise, key_origin = jax.random.split(key)
        z = jax.random.normal(key_noise, y.shape)
        back = problem.kernel.retrace(gamma, y, gamma(y), width * z)
        log_terms = back.log_density + back.log_forward
        x = back.value[jax.random.categorical(key_origin, log_terms)]
        log_proposed = jnp.sum(jax.scipy.stats.norm.logpdf(z) - jnp.log(width))
        return x, jax.nn.logsumexp(log_terms) - log_proposed - gamma(x)

    def log_estimate(key: Any, x: Any) -> Any:
        x, log_weights = jax.lax.scan(step_back, x, jax.random.split(key, steps))
        return problem.start.log_prob(x) + jnp.sum(log_weights)

    known = dict[bytes, Any]()

    def at(value: Any, number: Any) -> Any:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(8), number), num)
        logs = jax.vmap(lambda key: log_estimate(key, value))(keys)
        total, squares = (jax.nn.logsumexp(power * logs) for power in (1, 2))
        return total - np.log(num), jnp.exp(squares - 2 * total) - 1 / num

    @jax.jit
    def at_all(pairs: Any) -> Any:
        return jax.lax.map(lambda pair: at(*pair), pairs, batch_size=max(1, AT_ONCE // num))

    def log_q(values: np.ndarray) -> np.ndarray:
        if values.tobytes() not in known:
            with jax.enable_x64(True):
                known[values.tobytes()] = at_all((jnp.asarray(values), jnp.arange(len(values))))
        found, variance = map(np.asarray, known[values.tobytes()])
        print(f"truth at T = {steps}: too low by {variance.mean() / 2:.2g}", flush=True)
        return found

    return Truth(np.nan, log_q)


def warm_up(
    key: int, log_density: Any, first: np.ndarray, max_depth: int, dense: bool = False
) -> aide.kernels.Nuts:
    """NUTS as BlackJAX's warm-up leaves it, after 1,000 steps; 2,000 for a dense metric."""
    with jax.enable_x64(True):
        adapt: Any = blackjax.window_adaptation(
            blackjax.nuts, log_density, is_mass_matrix_diagonal=not dense
        )
        num = 2000 if dense else 1000
        (_, parameters), info = adapt.run(jax.random.key(key), jnp.asarray(first), num)
    deepest = int(np.max(np.asarray(info.info.num_trajectory_expansions)[200:]))
    size = float(parameters["step_size"])
    print(f"warm-up: step size {size:.3g}, deepest tree {deepest}", flush=True)
    return aide.blackjax.nuts(parameters, max_depth=max_depth)


def gaussian_problem() -> tuple[Problem, np.ndarray, Any]:
    """All correlations 0.8, start three times as wide; the whitening matrix, log p of rows."""
    covariance = 0.2 * np.eye(SIZE) + 0.8
    root = np.linalg.cholesky(covariance)
    white = np.linalg.inv(root)
    constant = float(np.log(np.diag(white)).sum() - 0.5 * SIZE * np.log(2 * np.pi))
    log_density = lambda x: -0.5 * jnp.sum((jnp.asarray(white) @ x) ** 2) + constant
    sample = lambda key: jnp.asarray(root) @ jax.random.normal(key, (SIZE,), float)
    wide = lambda x: log_density(x / SPREAD) - SIZE * np.log(SPREAD)
    start = aide.Tractable(lambda key: SPREAD * sample(key), wide)
    kernel = aide.kernels.Nuts(STEP_SIZE, 4, covariance, "numpyro")
    problem = Problem(start, aide.Tractable(sample, log_density), log_density, kernel)
    return problem, white, lambda x: -0.5 * ((x @ white.T) ** 2).sum(axis=1) + constant


def gaussian(
    runs: int = 1000,
    chains: int = 2_000_000,
    steps: tuple[int, ...] = (1, 2, 3, 4),
    particles: tuple[int, ...] = (100, 1000),
) -> Iterator[Row]:
    """20 dimensions, all correlations 0.8, from a start three times as wide; metric: covariance."""
    problem, white, log_p = gaussian_problem()
    truths = radial_nuts_truth(jax.random.key(9), STEP_SIZE, white, log_p, SPREAD, steps, chains)
    yield from rows(problem, steps, particles, runs, truths)


class CentredSchools(eqx.Module):
    """Eight schools with the effects themselves as variables: mean / 5, log scale, effects / 10."""

    plain: EightSchools = EightSchools()

    def __call__(self, x: Any) -> Any:
        """The log joint density."""
        return self.plain(to_normals(x)) + log_jacobian(x[1])


def to_normals(x: Any) -> Any:
    """Centred variables as those of `EightSchools`."""
    return jnp.concatenate([x[:2], (10.0 * x[2:] - 5.0 * x[0]) * jnp.exp(-x[1])])


def to_effects(x: Any) -> Any:
    """The other way."""
    return jnp.concatenate([x[:2], 0.1 * (5.0 * x[0] + jnp.exp(x[1]) * x[2:])])


def log_jacobian(log_scale: Any) -> Any:
    """Of `to_normals`."""
    return 8.0 * (np.log(10.0) - log_scale)


class Centred(eqx.Module):
    """An algorithm for `EightSchools`, its outputs in centred variables."""

    plain: Any

    @property
    def log_z(self) -> float:
        """As that of the algorithm."""
        return self.plain.log_z

    def simulate(self, key: Any) -> Any:
        """Run it and change variables, in the output and in its density."""
        x, log_xi = self.plain.simulate(key)
        return Draw(to_effects(x), log_xi + log_jacobian(x[1]))

    def regenerate(self, key: Any, value: Any) -> Any:
        """The same from a given output."""
        return self.plain.regenerate(key, to_normals(value)) + log_jacobian(value[1])


def schools_problem(gold: int, centred: bool) -> Problem:
    """NUTS after warm-up, from log scale N(1, 0.5^2) and normals N(0, 1), in either form."""
    posterior, log_joint = gold_standard(gold), EightSchools()
    start = Normal(CENTRE, np.array([1.0, 0.5] + [1.0] * 8))
    if not centred:
        return Problem(start, posterior, log_joint, warm_up(3, log_joint, CENTRE, 5))
    log_start = lambda x: start.log_prob(to_normals(x)) + log_jacobian(x[1])
    moved = aide.Tractable(lambda key: to_effects(start.sample(key)), log_start)
    kernel = warm_up(3, CentredSchools(), CENTRE, 6)
    return Problem(moved, Centred(posterior), CentredSchools(), kernel)


def schools(
    runs: int = 1000,
    steps: tuple[int, ...] = (1, 2, 5, 10),
    particles: tuple[int, ...] = (200, 2000),
    gold: int = 500,
    centred: bool = False,
    walks: int = 10_000,
) -> Iterator[Row]:
    """Eight schools from log scale N(1, 0.5^2); `--centred` for the other form.

    The truth is `--walks` estimates of the density at every output (`chance_truth`).
    """
    problem = schools_problem(gold, centred)
    truths = {number: chance_truth(problem, number, walks) for number in steps}
    for row in rows(problem, steps, particles, runs, truths):
        yield {"form": "centred" if centred else "non-centred", **row}


def regression_problem(gold: int, data: str, start: str, spread: float) -> Problem:
    """NUTS with a dense metric after warm-up; see `regression` for the starts."""
    model = LogisticRegression.of(data)
    laplace = Laplace.of(model)
    covariance = np.linalg.inv(laplace.precision)
    posterior = aide.tempered_smc(
        laplace.full(1.2),
        model,
        kernel=aide.kernels.Hmc(0.4, 4, metric=covariance),
        num_particles=gold,
        num_temperatures=10,
    )
    size = len(laplace.mode)
    starts = {
        "wide": laplace.full(spread),
        "mean-field": laplace.mean_field(),
        "prior": Normal(np.zeros(size), 1.0),
    }
    kernel = warm_up(4, model, np.zeros(size), 4, dense=True)
    return Problem(starts[start], posterior, model, kernel)


def regression(
    runs: int = 500,
    steps: tuple[int, ...] = (1, 2, 3),
    particles: tuple[int, ...] = (200, 2000),
    gold: int = 1000,
    data: str = "../shared/data/ionosphere.csv",
    start: str = "wide",
    spread: float = 1.5,
    pilots: int = 16384,
    components: int = 0,
    walks: int = 0,
    width: float = 1.0,
) -> Iterator[Row]:
    """Logistic regression in 35 dimensions from `--start` wide, mean-field or prior.

    `wide` is the Laplace approximation, `--spread` times as wide, `mean-field` has its marginal
    variances. `--components` 0: chosen by held-out pilots. With `--walks`, the truth is so many
    estimates of the density at every output, with momenta of `--width` (`chance_truth`).
    """
    problem = regression_problem(gold, data, start, spread)
    effort = {"num_pilots": pilots, "num_components": components or None}
    name = f"{spread} wide" if start == "wide" else start
    truths = {number: chance_truth(problem, number, walks, width) for number in steps}
    for row in rows(problem, steps, particles, runs, truths if walks else None, **effort):
        yield {"start": name, "pilots": pilots, **row}


def curve(
    runs: int = 1000,
    steps: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 40),
    reverse: int = 1000,
    gold: int = 500,
    which: str = "gaussian",
    data: str = "../shared/data/ionosphere.csv",
    spread: float = 1.5,
) -> Iterator[Row]:
    """`aide.measure_convergence` of `--which` gaussian, schools, centred or regression."""
    problems = {
        "gaussian": lambda: gaussian_problem()[0],
        "schools": lambda: schools_problem(gold, False),
        "centred": lambda: schools_problem(gold, True),
        "regression": lambda: regression_problem(gold, data, "wide", spread),
    }
    problem = problems[which]()
    fit = problem.learn(max(steps))
    chain = aide.mcmc(problem.start, problem.log_joint, kernel=problem.kernel, num_steps=max(steps))
    refined = aide.refine(None, chain, fit=fit, num_reverse=reverse)
    key, options = jax.random.key(6), {"num_gold": runs, "num_target": runs}
    options["num_chains"] = 4 if find_spec("arviz") else 0
    found = aide.measure_convergence(key, problem.posterior, refined, steps=steps, **options)
    print(found, flush=True)
    for record in found.records():
        yield {"chain": which, **record}


TABLES = {"gaussian": gaussian, "schools": schools, "regression": regression, "curve": curve}
