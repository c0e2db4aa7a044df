"""Linear regression (Figure 2): SMC, MH and variational inference against the exact posterior.

The true divergence of the MH chain is computed on a grid.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide.algorithms.mcmc import MarkovChain, mcmc
from aide.algorithms.tractable import Tractable
from aide.experiments.results import (
    Row,
    SharedGold,
    estimates_for,
    new_figure,
    plot_curve,
    results_of,
    select,
)
from aide.experiments.runner import Experiment, Job, Options
from aide.kernels.kernel import Repeat
from aide.kernels.metropolis import Independence
from aide.learned.refine import refine
from aide.learned.refined import RefinedChain
from aide.problems.distributions import Normal
from aide.problems.linear_gaussian import LinearRegression
from aide.smc.moves import Composition, Rejuvenate, Reweight
from aide.smc.smc import Smc

FIXED_STD = 0.9
"""Standard deviation of the variational family, as in the paper; its means are fitted."""
Line = tuple[Array, Array]
"""Intercept and slope as two scalars. XLA vectorises over runs and particles only if no shorter
axis is inside theirs: with an array of length 2, one particle took 3.5 times as long."""


class FirstData(eqx.Module):
    r"""$\log p(a, b, y_{1:n})$ for the first n data, as a quadratic function of (a, b).

    Sufficient statistics make its cost independent of n.
    """

    constant: float
    linear: tuple[float, float]
    quadratic: tuple[float, float, float]

    def __init__(self, model: LinearRegression, num_data: int):
        x, y = (np.asarray(data, np.float64)[:num_data] for data in (model.x, model.y))
        noise_std, prior_std = float(model.noise_std), float(model.prior_std)
        noise, prior = noise_std**-2, prior_std**-2
        self.linear = noise * float(y.sum()), noise * float(x @ y)
        squares = num_data, float(x.sum()), float(x @ x)
        first, mixed, second = (-0.5 * noise * number for number in squares)
        self.quadratic = first - 0.5 * prior, 2 * mixed, second - 0.5 * prior
        scales = num_data * math.log(noise_std) + 2 * math.log(prior_std)
        half = 0.5 * (num_data + 2) * math.log(2 * math.pi)
        self.constant = -0.5 * noise * float(y @ y) - scales - half

    def __call__(self, line: Line) -> LogProb:
        """Evaluate the quadratic."""
        intercept, slope = line
        first, mixed, second = self.quadratic
        return (
            self.constant
            + intercept * (self.linear[0] + first * intercept + mixed * slope)
            + slope * (self.linear[1] + second * slope)
        )


def all_data(model: LinearRegression) -> FirstData:
    r"""$\log p(a, b, y)$."""
    return FirstData(model, len(model.x))


def line_prior(model: LinearRegression) -> Tractable:
    """The prior as an algorithm that outputs a line."""
    return independent_lines(0.0, 0.0, model.prior_std, "prior")


def line_posterior(model: LinearRegression) -> Tractable:
    """The exact posterior as an algorithm that outputs a line."""
    exact = model.posterior()
    return Tractable(_AsLine(exact.sample), _OfLine(exact.log_density), label="exact posterior")


def independent_lines(
    intercept: ArrayLike, slope: ArrayLike, std: ArrayLike, label: str
) -> Tractable:
    """Independent normal intercept and slope."""
    pair = _Independent(Normal(intercept, std), Normal(slope, std))
    return Tractable(pair.sample, pair.log_density, label=label)


class _Independent(eqx.Module):
    intercept: Normal
    slope: Normal

    def sample(self, key: Key) -> Line:
        first, second = derive_keys(key, 2)
        return self.intercept.sample(first), self.slope.sample(second)

    def log_density(self, line: Line) -> LogProb:
        return self.intercept.log_prob(line[0]) + self.slope.log_prob(line[1])


class _AsLine(eqx.Module):
    sample: Callable[[Key], Value]

    def __call__(self, key: Key) -> Line:
        state = self.sample(key)
        return state[0], state[1]


class _OfLine(eqx.Module):
    log_density: LogDensity

    def __call__(self, line: Line) -> LogProb:
        return self.log_density(jnp.stack(line))


def regression_smc(model: LinearRegression, num_particles: int) -> Smc:
    """One datum per step; two independence-MH steps before each new datum."""
    prior = line_prior(model)
    kernel = Repeat(Independence(prior), 2)
    densities = [FirstData(model, n) for n in range(1, len(model.x) + 1)]
    moves = tuple(
        Composition(Rejuvenate(kernel, before), Reweight(before, after))
        for before, after in itertools.pairwise(densities)
    )
    label = f"SMC, {num_particles} particles"
    return Smc(prior, moves, densities[-1], num_particles, densities[0], label=label)


def regression_mh(model: LinearRegression, num_steps: int) -> MarkovChain:
    """Independence MH with the prior as proposal and start, canonical meta-inference."""
    prior = line_prior(model)
    return mcmc(prior, all_data(model), kernel=Independence(prior), num_steps=num_steps)


def refined_mh(key: Any, model: LinearRegression, num_steps: int, num_reverse: int) -> RefinedChain:
    """The chain of `regression_mh` with learned meta-inference; `with_steps` shortens it."""
    return refine(key, regression_mh(model, num_steps), num_reverse=num_reverse)


def fit_variational(
    key: Key, model: LinearRegression, num_iterations: int, num_samples: int = 10
) -> Tractable:
    r"""Means by score-function gradients of the ELBO, step size $(10^4 + t)^{-0.75}$."""
    with jax.enable_x64(True):
        intercept, slope = np.asarray(_ascend(key, model, num_iterations, num_samples))
    return independent_lines(intercept, slope, FIXED_STD, f"variational, {num_iterations}")


def _ascend(key: Key, model: LinearRegression, num_iterations: int, num_samples: int) -> Array:
    def gradient(mean: Array, key_step: Key) -> Array:
        states = mean + FIXED_STD * jax.random.normal(key_step, (num_samples, 2))
        score = (states - mean) / FIXED_STD**2
        log_q = jax.vmap(Normal(mean, FIXED_STD).log_prob)(states)
        signal = jax.vmap(model.log_joint)(states) - log_q
        return jnp.mean(score * signal[:, None], axis=0)

    def step(t: Array, mean: Array) -> Array:
        size = (1e4 + t) ** -0.75
        return mean + size * gradient(mean, jax.random.fold_in(key, t))

    return jax.jit(lambda n: jax.lax.fori_loop(0, n, step, jnp.zeros(2)))(num_iterations)


def true_mh_divergence(
    model: LinearRegression, steps: list[int], num_nodes: int = 800, half_width: float = 6.0
) -> np.ndarray:
    r"""The true divergence of the MH chain from the posterior after each number of steps.

    The chain starts from its own proposal, the prior, so its density stays $p(x) f_t(L(x))$ with
    $f_{t+1}(x) = \int p(y) f_t(y) \min\{1, L(x)/L(y)\}\,dy + f_t(x) r(x)$, where $r(x)$ is the
    probability of a rejection. On a grid of nodes sorted by likelihood every integral is a
    cumulative sum.
    """
    axis = np.linspace(-half_width, half_width, num_nodes)
    nodes = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) * model.prior_std
    prior = np.exp(-0.5 * np.sum((nodes / model.prior_std) ** 2, axis=1))
    prior /= prior.sum()
    errors = np.asarray(model.y) - (nodes[:, :1] + nodes[:, 1:] * np.asarray(model.x))
    log_l = -0.5 * np.sum((errors / model.noise_std) ** 2, axis=1)
    order = np.argsort(log_l)
    prior, log_l = prior[order], log_l[order]
    likelihood = np.exp(log_l - log_l[-1])
    posterior_ratio = likelihood / np.sum(prior * likelihood)
    # sum_y p(y) min(1, L(y)/L(x)): nodes below x contribute L(y)/L(x), the others 1.
    below = np.cumsum(prior * likelihood)
    accept = below / likelihood + (1.0 - np.cumsum(prior))
    reject, f, wanted, result = 1.0 - accept, np.ones_like(prior), set(steps), {}
    for t in range(max(steps) + 1):
        if t in wanted:
            log_ratio = np.log(f) - np.log(posterior_ratio)
            result[t] = float(np.sum(prior * (f - posterior_ratio) * log_ratio))
        flow = prior * f
        above = np.cumsum((flow / likelihood)[::-1])[::-1]
        f = np.cumsum(flow) + likelihood * (above - flow / likelihood) + f * reject
    return np.array([result[t] for t in steps])


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "num_runs": 500,
        "metas": (1, 10),
        "particles": (1, 3, 10),
        "steps": (0, 1, 4),
        "iterations": (1, 100, 3162),
        "learned_runs": 200,
    },
    "default": {
        "num_runs": 1000,
        "metas": (1, 10, 100),
        "particles": (1, 2, 3, 6, 10, 20, 30, 60, 100),
        "steps": (0, 1, 2, 4, 8, 16, 32, 64, 128),
        "iterations": (1, 3, 10, 31, 100, 316, 1000, 3162, 10_000),
        "learned_runs": 1000,
    },
}
NUM_REVERSE = 300
"""Reverse particles of learned meta-inference."""
SCALES["paper"] = {**SCALES["default"], "num_runs": 10_000, "metas": (1, 10, 1000)}


def linreg(options: Options) -> Experiment:
    """The experiment at the scale of the options, with their changes."""
    scale = SCALES[options.scale]
    num = options.num_runs or scale["num_runs"]
    metas = tuple(sorted(options.meta or scale["metas"]))
    particles = options.particles or scale["particles"]
    model = LinearRegression()
    gold = SharedGold(line_posterior(model), options.seed, num)
    base = Row("linreg", "prior", num_gold=num, num_target=num)
    fit_key = jax.random.fold_in(jax.random.key(options.seed), 1)

    def job(rows: Sequence[Row], make: Any, weight: float) -> Job:
        return Job(tuple(rows), partial(_measure, gold, rows, make), weight)

    def per_meta(row: Row) -> list[Row]:
        return [replace(row, num_meta_target=meta) for meta in metas]

    jobs = [
        job([base], partial(line_prior, model), 1.0),
        job([replace(base, algorithm="posterior")], partial(line_posterior, model), 1.0),
    ]
    for count in particles:
        row = replace(base, algorithm="smc", proposal="prior", num_particles=count)
        make = partial(regression_smc, model, count)
        jobs.append(job(per_meta(row), make, 1 + 3e-7 * num * metas[-1] * (1 + count)))
    for steps in scale["steps"]:
        row = replace(base, algorithm="mh", proposal="prior", num_steps=steps)
        make = partial(regression_mh, model, steps)
        jobs.append(job(per_meta(row), make, 1 + 1e-7 * num * metas[-1] * (1 + steps)))
    few = min(num, scale["learned_runs"])
    learned_gold = SharedGold(line_posterior(model), options.seed, few)
    refined = cache(partial(refined_mh, fit_key, model, max(scale["steps"]), NUM_REVERSE))
    for steps in scale["steps"]:
        row = replace(base, algorithm="mh", proposal="prior", num_steps=steps, meta="learned")
        row = replace(row, num_gold=few, num_target=few)
        make = lambda steps=steps: refined().with_steps(steps)
        weight = 5 + 1e-6 * few * NUM_REVERSE * (1 + steps)
        jobs.append(Job((row,), partial(_measure, learned_gold, [row], make), weight))
    for steps in scale["iterations"]:
        row = replace(base, algorithm="variational", num_steps=steps)
        jobs.append(job([row], partial(fit_variational, fit_key, model, steps), 1.0))
    settings = {**scale, "num_runs": num, "metas": metas, "particles": particles}
    return Experiment("linreg", jobs, partial(_figure, model), settings)


def _measure(gold: SharedGold, rows: Sequence[Row], make: Any) -> list[Row]:
    metas = [row.num_meta_target for row in rows]
    estimates = estimates_for(gold.measure(make(), max(metas)), metas)
    return [
        replace(row, **results_of(estimate)) for row, estimate in zip(rows, estimates, strict=True)
    ]


def _figure(model: LinearRegression, rows: list[Row]) -> Any:
    figure, axes = new_figure(1, 3, (11, 3.4), sharey=True)
    panels = (
        ("SMC", "smc", "num_particles", "particles"),
        ("MH", "mh", "num_steps", "MH transitions"),
        ("variational", "variational", "num_steps", "gradient steps"),
    )
    colours = ("#1f6fb4", "#8e44ad", "#c0392b", "#16a085")
    for axis, (title, name, x, label) in zip(axes, panels, strict=True):
        for reference, style in (("prior", ":"), ("posterior", "-")):
            (row,) = select(rows, algorithm=reference)
            axis.axhline(row.value, color="grey", ls=style, lw=1, label=reference)
        chosen = select(rows, algorithm=name, meta="canonical")
        for meta, colour in zip(sorted({r.num_meta_target for r in chosen}), colours, strict=False):
            curve = select(chosen, num_meta_target=meta)
            plot_curve(axis, curve, x, label=f"M = {meta}", color=colour)
        axis.set(title=title, xlabel=label)
        axis.set_xscale("symlog" if name == "mh" else "log")
    steps = sorted({row.num_steps or 0 for row in select(rows, algorithm="mh")})
    truth = true_mh_divergence(model, steps)
    axes[1].plot(steps, truth, color="black", ls="--", label="truth (grid)")
    learned = select(rows, algorithm="mh", meta="learned")
    plot_curve(axes[1], learned, "num_steps", color="#e67e22", label="learned")
    axes[0].set_ylabel("AIDE estimate (nats)")
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    return figure
