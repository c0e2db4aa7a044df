"""Approximations of a posterior, moved to the vector that everything else works on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.types import Key, LogProb

if TYPE_CHECKING:
    from aide.adapters.posterior import AbstractPosterior


class ReorderedTarget(eqx.Module):
    """A distribution over vectors, with its coordinates in another order; the Jacobian is 1.

    Args:
        distribution: Over vectors $z$.
        index: $x_i = z_{index_i}$.
    """

    distribution: Distribution
    index: np.ndarray

    def sample(self, key: Key) -> Float[Array, " d"]:
        """Draw $z$ and reorder it."""
        return sample_from(self.distribution, key)[self.index]

    def log_density(self, x: Float[Array, " d"]) -> LogProb:
        """The density of $z$."""
        return log_density_of(self.distribution, jnp.zeros_like(x).at[self.index].set(x))


class ConstrainedTarget(eqx.Module):
    r"""A density of values by name, as one of the unconstrained vector.

    $\log q(x) = \log q(T(x)) + \log|\det T'(x)|$.
    """

    posterior: "AbstractPosterior"
    sample_values: Callable[[Key], Any]
    log_density_of_values: Callable[[Any], Any]

    def sample(self, key: Key) -> Float[Array, " d"]:
        """Draw values and unconstrain them."""
        return self.posterior.unconstrain(self.sample_values(key))

    def log_density(self, x: Float[Array, " d"]) -> LogProb:
        """The density of the values, and the Jacobian."""
        log_density = self.log_density_of_values(self.posterior.constrain(x))
        return log_density + self.posterior.log_jacobian(x)
