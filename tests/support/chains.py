"""Chains whose law is known: of the last state, against the posterior; of stored draws.

Laws of the last state come without Monte Carlo. Stored draws have a known autocorrelation.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse, stats

from support.finite_laws import Pair, mixed, normal

WIDTH, LIMITS, SCALE = 0.01, (-14.0, 15.0), 0.5


def walk(steps: Sequence[int]) -> dict[int, Pair]:
    """A random walk with step 0.5 from N(0, 3²) to N(1, 0.3²), on a grid of spacing 0.01."""
    grid = np.arange(*LIMITS, WIDTH)
    log_p = stats.norm.logpdf(grid, 1.0, 0.3)
    q = stats.norm.pdf(grid, 0.0, 3.0)
    q /= q.sum()
    matrix = _transitions(grid, log_p)
    log_p = log_p - np.log(np.exp(log_p).sum())
    found = {}
    for time in range(max(steps) + 1):
        if time in steps:
            found[time] = Pair(log_p, np.log(np.maximum(q, 1e-300)))
        q = matrix @ q
    return found


def _transitions(grid: np.ndarray, log_p: np.ndarray) -> sparse.csr_matrix:
    """Column j holds where the walk goes from point j."""
    most = int(6.5 * SCALE / WIDTH)
    reach = np.arange(-most, most + 1)
    hop = np.exp(-0.5 * (reach * WIDTH / SCALE) ** 2)
    there = np.arange(grid.size)[:, None] + reach
    inside = (there >= 0) & (there < grid.size)
    ratio = np.minimum(log_p[np.clip(there, 0, grid.size - 1)] - log_p[:, None], 0.0)
    move = np.where(inside, np.exp(ratio), 0.0) * hop / hop.sum()
    here = np.broadcast_to(np.arange(grid.size)[:, None], there.shape)
    index = there[inside], here[inside]
    matrix = sparse.csr_matrix((move[inside], index), shape=(grid.size, grid.size))
    return (matrix + sparse.diags(1.0 - move.sum(axis=1))).tocsr()


def _late(shares: Sequence[float]) -> dict[int, Pair]:
    """A share of the chains has not arrived: it sits six standard deviations away."""
    laws = [mixed(normal(), normal(6.0), share) if share else normal() for share in shares]
    return {10 * 2**index: Pair(normal(), law) for index, law in enumerate(laws)}


LATE = {
    "late chains: 1%, then 0.3%": _late((0.1, 0.01, 0.003, 0.0)),
    "late chains: 3%, then 1%": _late((0.1, 0.03, 0.01, 1e-4)),
    "late chains: 2% for ever": _late((0.02, 0.02, 0.02, 0.02)),
}
RISING = {
    number: Pair(normal(), normal(0.0, scale))
    for number, scale in ((1, 1.02), (2, 1.12), (3, 1.2), (5, 1.31))
}
"""An unadjusted chain that starts nearly right and drifts to 1.31 times the width: D(5) = 0.15."""


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
