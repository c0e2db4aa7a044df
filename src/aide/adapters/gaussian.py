r"""Gaussian approximations on the flattened space of values of any structure."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.jax_compat import is_traced
from aide._core.numerics import as_parameter
from aide._core.random import derive_keys, standard_normal
from aide._core.types import Key, LogProb, Parameter, Value


class Gaussian(eqx.Module):
    r"""$x = m + L z$ with standard normal $z$, on the flattened space of $m$.

    Flat means the order of `jax.flatten_util.ravel_pytree` of the mean, whose structure all values
    have.

    Args:
        mean: $m$: an array, or a dict, tuple or list of them.
        factor: $L$: standard deviations, one per flat component, or a lower triangular matrix.
    """

    mean: Value = eqx.field(converter=lambda tree: jax.tree.map(as_parameter, tree))
    factor: Parameter = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        if is_traced(self.factor):
            return
        size = sum(jnp.size(leaf) for leaf in jax.tree.leaves(self.mean))
        if jnp.shape(self.factor) not in ((size,), (size, size)):
            raise ValueError(
                f"factor must be {size} standard deviations or a lower triangular matrix "
                f"({size}, {size}), as the mean has {size} numbers; got shape "
                f"{jnp.shape(self.factor)}."
            )

    def sample(self, key: Key) -> Value:
        """Draw one value."""
        mean, unravel = ravel_pytree(self.mean)
        factor = jnp.asarray(self.factor)
        z = standard_normal(key, mean.shape, mean.dtype)
        return unravel(mean + (factor * z if factor.ndim == 1 else factor @ z))

    def log_density(self, x: Value) -> LogProb:
        r"""$-\frac12 |L^{-1}(x - m)|^2 - \log\det L - \frac d2 \log 2\pi$."""
        mean, _ = ravel_pytree(self.mean)
        gap = ravel_pytree(x)[0] - mean
        factor = jnp.asarray(self.factor)
        if factor.ndim == 1:
            z, scales = gap / factor, factor
        else:
            z = jax.scipy.linalg.solve_triangular(factor, gap, lower=True)
            scales = jnp.diag(factor)
        constant = 0.5 * mean.size * math.log(2 * math.pi)
        return -0.5 * jnp.sum(z * z) - jnp.sum(jnp.log(scales)) - constant


class GaussianMixture(eqx.Module):
    r"""$\frac1K \sum_k N(m_k, L_k L_k^T)$; the components are one `Gaussian` with a leading axis.

    Args:
        components: A `Gaussian` whose arrays have a leading axis of length $K$.
        num_components: $K$.
    """

    components: Gaussian
    num_components: int = eqx.field(static=True)

    def sample(self, key: Key) -> Value:
        """Draw a component, and one value of it."""
        key_component, key_value = derive_keys(key, 2)
        chosen = jax.random.randint(key_component, (), 0, self.num_components)
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], self.components)
        return one.sample(key_value)

    def log_density(self, x: Value) -> LogProb:
        """The mean of the components' densities."""

        def of_one(component: Gaussian) -> Array:
            return component.log_density(x)

        all_of_them = jax.vmap(of_one)(jax.tree.map(jnp.asarray, self.components))
        return jax.nn.logsumexp(all_of_them) - math.log(self.num_components)
