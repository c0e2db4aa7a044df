"""The distributions of the built-in problems, as pytrees with `sample` and `log_prob`."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from aide._core.numerics import as_parameter
from aide._core.random import draw_index, standard_normal
from aide._core.types import Key, LogProb, Parameter


class Normal(eqx.Module):
    """Independent normals; the log density is summed over all components.

    Args:
        mean: Means, of any shape.
        std: Standard deviations, which broadcast against the means.

    Example:
        >>> normal = Normal(np.zeros(3), 1.0)
        >>> round(float(normal.log_prob(np.zeros(3))), 3)
        -2.757
    """

    mean: Parameter = eqx.field(converter=as_parameter)
    std: Parameter = eqx.field(converter=as_parameter)

    def sample(self, key: Key) -> Array:
        """Draw one value."""
        shape = jnp.broadcast_shapes(jnp.shape(self.mean), jnp.shape(self.std))
        return jnp.asarray(self.mean + self.std * standard_normal(key, shape))

    def log_prob(self, x: ArrayLike) -> LogProb:
        """Normalised log density."""
        z = (x - self.mean) / self.std
        return jnp.sum(-0.5 * z * z - jnp.log(self.std) - 0.5 * math.log(2 * math.pi))

    log_density = log_prob


class Categorical(eqx.Module):
    r"""A value in $0 \dots K-1$ with given probabilities, which need not sum to 1.

    Args:
        weights: Weights of the values, not negative, as an array.

    Example:
        >>> from aide.problems import Categorical
        >>> round(float(jnp.exp(Categorical(np.array([1.0, 3.0])).log_prob(1))), 6)
        0.75
    """

    weights: Float[Array, " num_values"]

    @property
    def num_values(self) -> int:
        """$K$."""
        return self.weights.shape[0]

    def sample(self, key: Key) -> Array:
        """Draw one value, from one uniform."""
        return draw_index(key, self.weights)

    def log_prob(self, x: Array) -> LogProb:
        r"""Log probability; $-\infty$ outside the range."""
        num = self.num_values
        inside = (x >= 0) & (x < num)
        weight = jnp.where(inside, jnp.asarray(self.weights)[jnp.clip(x, 0, num - 1)], 0.0)
        return jnp.log(weight) - jnp.log(jnp.sum(self.weights))

    log_density = log_prob


class FairCoins(eqx.Module):
    """An array of independent fair coins, 0 or 1."""

    shape: tuple[int, ...] = eqx.field(static=True)
    num_values: ClassVar[int] = 2

    def sample(self, key: Key) -> Array:
        """Draw all coins."""
        return jax.random.bernoulli(key, 0.5, self.shape).astype(int)

    def log_prob(self, x: Array) -> LogProb:
        r"""$-n\log 2$ for $n$ coins; $-\infty$ for values other than 0 and 1."""
        log_prob = jnp.asarray(-math.prod(self.shape) * math.log(2.0), float)
        return jnp.where(jnp.all((x == 0) | (x == 1)), log_prob, -jnp.inf)

    log_density = log_prob
