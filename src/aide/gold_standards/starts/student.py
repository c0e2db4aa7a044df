r"""Multivariate $t$ distributions: the heavy tails of starts that are fitted."""

import math

import jax
import jax.numpy as jnp
import numpy as np
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


def inverses_of(factors: Parameter) -> np.ndarray:
    r"""$L_k^{-1}$ of lower triangular matrices $L_k$.

    Computed once: products with them are compiled sooner and run faster than solving, in every
    density of a path, for every state.
    """
    return np.tril(np.linalg.inv(np.asarray(factors, np.float64)))


def log_student(x: Array, mean: Array, inverse: Array) -> LogProb:
    r"""$\log t_\nu(x; m, L L^\top)$ with $L$ lower triangular, given $L^{-1}$."""
    num = x.shape[-1]
    white = inverse @ (x - mean)
    constant = math.lgamma((FREEDOM + num) / 2) - math.lgamma(FREEDOM / 2)
    constant -= 0.5 * num * math.log(FREEDOM * math.pi)
    tail = -0.5 * (FREEDOM + num) * jnp.log1p(jnp.sum(white**2) / FREEDOM)
    return constant + tail + jnp.sum(jnp.log(jnp.diagonal(inverse)))


def log_student_mixture(
    x: Array, weights: Parameter, means: Parameter, inverses: Parameter
) -> LogProb:
    r"""$\log\sum_k w_k\,t_\nu(x; m_k, L_k L_k^\top)$, given $L_k^{-1}$."""
    logs, means, inverses = (jnp.asarray(part) for part in (jnp.log(weights), means, inverses))
    if len(means) == 1:
        return logs[0] + log_student(x, means[0], inverses[0])
    return jax.nn.logsumexp(logs + jax.vmap(log_student, (None, 0, 0))(x, means, inverses))
