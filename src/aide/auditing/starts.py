"""Starts that are wider than others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.distribution import (
    Distribution,
    check_distribution,
    is_distribution,
    log_density_of,
    sample_from,
)
from aide._core.numerics import as_parameter
from aide._core.types import Key, LogProb, Parameter, Value
from aide._core.validate import check_positive

NUM_CENTRE = 1000


class Widened(eqx.Module):
    r"""A real-valued distribution stretched about a centre: $x = c + a\,(x_0 - c)$.

    Args:
        distribution: The law of $x_0$.
        centre: $c$, in the structure of the state.
        factor: $a$.
    """

    distribution: Distribution
    centre: Value
    factor: Parameter = eqx.field(converter=as_parameter)

    def sample(self, key: Key) -> Value:
        """Draw and stretch."""
        x = sample_from(self.distribution, key)
        return jax.tree.map(lambda a, c: c + self.factor * (a - c), x, self.centre)

    def log_density(self, x: Value) -> LogProb:
        """The density of the stretched draw."""
        back = jax.tree.map(lambda a, c: c + (a - c) / self.factor, x, self.centre)
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.centre))
        return log_density_of(self.distribution, back) - size * jnp.log(self.factor)


def can_be_widened(key: Key, thing: object) -> bool:
    """Whether it is a distribution of real values."""
    if not is_distribution(thing):
        return False
    shapes = jax.eval_shape(lambda k: sample_from(thing, k), key)
    return all(jnp.issubdtype(shape.dtype, jnp.floating) for shape in jax.tree.leaves(shapes))


def widen(key: Key, distribution: Distribution, factor: float) -> Widened:
    """Stretch a distribution about its mean, which draws estimate."""
    check_distribution("distribution", distribution)
    check_positive("factor", factor)
    if not can_be_widened(key, distribution):
        raise TypeError("only real-valued starts can be widened; this one has discrete parts.")
    with jax.enable_x64(True):
        keys = jax.random.split(key, NUM_CENTRE)
        draws = jax.vmap(lambda k: sample_from(distribution, k))(keys)
        centre = jax.tree.map(lambda a: np.asarray(a, np.float64).mean(axis=0), draws)
    return Widened(distribution, jax.tree.map(as_parameter, centre), factor)
