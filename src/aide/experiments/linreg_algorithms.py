"""Linear regression (Figure 2): the algorithms under test."""

import itertools
import math
from collections.abc import Callable
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
from aide.kernels.kernel import Repeat
from aide.kernels.metropolis import Independence
from aide.learned.refine import refine
from aide.learned.refined import RefinedChain
from aide.problems.distributions import Normal
from aide.problems.linear_regression import LinearRegression
from aide.smc.moves import Composition, Rejuvenate, Reweight
from aide.smc.smc import Smc

FIXED_STD = 0.9
"""Standard deviation of the variational family; its means are fitted."""
Line = tuple[Array, Array]
"""Intercept and slope as two scalars. XLA vectorises over runs and particles only if no short axis
lies inside theirs: with an array of length 2, one particle took 3.5 times as long."""


class FirstData(eqx.Module):
    r"""$\log p(a, b, y_{1:n})$ for the first n data, as the quadratic in (a, b) that it is.

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
        """Evaluate it."""
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
