"""Bayesian logistic regression in many dimensions, simulated: a path on which settings matter."""

import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems.distributions import Normal


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
