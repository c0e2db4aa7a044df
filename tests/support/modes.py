"""Two modes at -8 and 8, and a chain that starts about the right one."""

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
