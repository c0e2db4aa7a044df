"""Posteriors on which algorithms differ: two modes with a chain that sees one; many dimensions.

The modes are at -8 and 8, and the chain starts about the right one. The logistic regression is
simulated, with an annealing path on which settings matter.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import aide
from aide.problems.distributions import Normal

SCALE = 1.5


class TwoModes(eqx.Module):
    """0.5 N(-8, 1) + 0.5 N(8, 1)."""

    def sample(self, key):
        key_side, key_x = jax.random.split(key)
        side = jnp.where(jax.random.bernoulli(key_side), 8.0, -8.0)
        return side + jax.random.normal(key_x, dtype=side.dtype)

    def log_prob(self, x):
        left, right = Normal(-8.0, 1.0).log_prob(x), Normal(8.0, 1.0).log_prob(x)
        return jnp.logaddexp(left, right) - jnp.log(2.0)


def two_modes():
    """The posterior."""
    return TwoModes()


def log_two_modes(x):
    """Its log density, in NumPy."""
    return np.logaddexp(stats.norm.logpdf(x, -8.0), stats.norm.logpdf(x, 8.0)) - np.log(2.0)


def missed_mode(std, num_steps):
    """A random walk from N(8, std^2)."""
    kernel = aide.kernels.RandomWalk(SCALE)
    return aide.mcmc(Normal(8.0, std), TwoModes().log_prob, kernel=kernel, num_steps=num_steps)


def logistic_regression(num_data, num_features, correlation, seed):
    """A start N(0, I) and the log joint, with standardised features and an intercept.

    Features are autoregressive; `correlation` is that of neighbours.
    """
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_data, num_features))
    for j in range(1, num_features):
        fresh = np.sqrt(1 - correlation**2) * features[:, j]
        features[:, j] = correlation * features[:, j - 1] + fresh
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    design = np.hstack([np.ones((num_data, 1)), features])
    chances = 1 / (1 + np.exp(-design @ rng.normal(size=num_features + 1)))
    signs = np.where(rng.random(num_data) < chances, 1.0, -1.0)
    prior = Normal(np.zeros(num_features + 1), 1.0)
    signed = signs[:, None] * design

    def log_joint(x):
        return prior.log_prob(x) + jnp.sum(jax.nn.log_sigmoid(jnp.asarray(signed) @ x))

    return prior, log_joint


def annealed_logistic(kernel, num_particles, num_temperatures, problem):
    """Tempered SMC from the prior."""
    prior, log_joint = problem
    return aide.tempered_smc(
        prior,
        log_joint,
        kernel=kernel,
        num_particles=num_particles,
        num_temperatures=num_temperatures,
    )
