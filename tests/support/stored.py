"""Chains of draws whose law and autocorrelation are known."""

import jax
import jax.numpy as jnp
import numpy as np


def ar1(
    rng: np.random.Generator, num_chains: int, num_draws: int, rho: float, size: int = 1
) -> np.ndarray:
    """Stationary AR(1) chains of standard normals: shape (chain, draw, coordinate)."""
    from scipy.signal import lfilter

    noise = rng.normal(size=(num_chains, num_draws, size))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise, axis=1))


class Normal:
    """Independent normals with one mean and one scale."""

    def __init__(self, mean: float, scale: float, size: int):
        self.mean, self.scale, self.size = mean, scale, size

    def sample(self, key: jax.Array) -> jax.Array:
        """A vector."""
        return self.mean + self.scale * jax.random.normal(key, (self.size,))

    def log_prob(self, x: jax.Array) -> jax.Array:
        """Its log density."""
        z = (x - self.mean) / self.scale
        return jnp.sum(-0.5 * z**2 - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi))

    @property
    def divergence(self) -> float:
        """Symmetrised KL to standard normals: (s² + m² + (1 + m²)/s²)/2 - 1 per coordinate."""
        variance, square = self.scale**2, self.mean**2
        return self.size * (0.5 * (variance + square + (1 + square) / variance) - 1)


def standard_log_joint(x: jax.Array) -> jax.Array:
    """Of standard normals, up to a constant: log Z is 3 + log(2 pi)/2 per coordinate."""
    return 3.0 - 0.5 * jnp.sum(x**2)
