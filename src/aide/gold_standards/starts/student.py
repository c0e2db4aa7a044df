r"""Multivariate $t$ distributions: the heavy tails of starts that are fitted."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.random import derive_keys
from aide._core.types import Key, LogProb, Parameter

FREEDOM = 4.0
r"""Degrees of freedom $\nu$."""


def draw_student(key: Key, num: int) -> Array:
    r"""A draw of $t_\nu(0, I)$ in so many dimensions.

    $\chi^2_\nu/2$ is a sum of $\nu/2 = 2$ exponentials: `jax.random.gamma` would be several loops
    in every program that draws from the start.
    """
    one, two = derive_keys(key, 2)
    half_chi_square = jnp.sum(jax.random.exponential(one, (int(FREEDOM / 2),)))
    scale = jnp.sqrt(FREEDOM / (2 * half_chi_square))
    return scale * jax.random.normal(two, (num,))


def log_student(x: Array, mean: Array, factor: Array) -> LogProb:
    r"""$\log t_\nu(x; m, L L^\top)$ with $L$ lower triangular."""
    num = x.shape[-1]
    white = jax.scipy.linalg.solve_triangular(factor, x - mean, lower=True)
    constant = math.lgamma((FREEDOM + num) / 2) - math.lgamma(FREEDOM / 2)
    constant -= 0.5 * num * math.log(FREEDOM * math.pi)
    tail = -0.5 * (FREEDOM + num) * jnp.log1p(jnp.sum(white**2) / FREEDOM)
    return constant + tail - jnp.sum(jnp.log(jnp.diagonal(factor)))


def log_student_mixture(
    x: Array, weights: Parameter, means: Parameter, factors: Parameter
) -> LogProb:
    r"""$\log\sum_k w_k\,t_\nu(x; m_k, L_k L_k^\top)$."""
    one = jax.vmap(log_student, (None, 0, 0))
    parts = one(x, jnp.asarray(means), jnp.asarray(factors))
    return jax.nn.logsumexp(jnp.log(jnp.asarray(weights)) + parts)
