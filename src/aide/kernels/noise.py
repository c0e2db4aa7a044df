r"""Kernels that draw noise and satisfy detailed balance; noise that is standard normal."""

import math
from abc import abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.normal import standard_normal
from aide._core.types import Key, LogDensity, LogProb, Value
from aide.kernels.kernel import AbstractInvariantKernel


class AbstractNoiseKernel(AbstractInvariantKernel):
    r"""A kernel that draws noise $v \sim g(\cdot \mid x)$ and is its own reversal."""

    @abstractmethod
    def noise(self, key: Key, x: Value) -> Value:
        r"""Sample $v \sim g(\cdot \mid x)$."""

    @abstractmethod
    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log g(v \mid x)$, normalised: learned meta-inference compares it with other densities.

        A constant left out changes no transition, and makes learned meta-inference wrong.
        """

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""Draw $v \sim g(\cdot \mid y)$: by detailed balance the step back is a step."""
        return self.noise(key, y)

    def reversal(self) -> "AbstractNoiseKernel":
        """The kernel itself: detailed balance holds."""
        return self


class NormalNoise:
    r"""Noise $v \sim N(0, I)$ in the structure of the state, whatever the state is."""

    def noise(self, key: Key, x: Value) -> Value:
        r"""$v \sim N(0, I)$; the state must be real-valued."""
        flat, unravel = ravel_reals(x)
        return unravel(standard_normal(key, flat.shape, flat.dtype))

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Value) -> Value:
        """The normals themselves: the noise does not depend on the state."""
        return z

    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log N(v; 0, I)$."""
        return log_standard_normal(v)


def log_standard_normal(v: Value) -> LogProb:
    """Log density of independent standard normals."""
    flat, _ = ravel_pytree(v)
    return -0.5 * jnp.sum(flat**2) - 0.5 * flat.size * math.log(2 * math.pi)


def ravel_reals(x: Value) -> tuple[Array, Callable[[Array], Value]]:
    """A real-valued state as a vector, and the way back; an error if any part is not real.

    `ravel_pytree` promotes integers to reals and truncates them on the way back: a kernel would
    move them, and they would follow no density.
    """
    kinds = {str(jnp.result_type(leaf)) for leaf in jax.tree.leaves(x)}
    if not all(jnp.issubdtype(kind, jnp.floating) for kind in kinds):
        raise TypeError(
            f"this kernel moves real-valued states, got {' and '.join(sorted(kinds))}. Use "
            "GibbsSites, FiniteNoise or a kernel of your own for discrete states; where integers "
            "and reals are entries of one state, give each entry its kernel: aide.kernels.Cycle("
            "aide.kernels.OnEntry('z', aide.kernels.GibbsSites(...)), "
            "aide.kernels.OnEntry('x', kernel))."
        )
    return ravel_pytree(x)


def all_finite(tree: Value) -> Array:
    """Whether no number of a state is infinite or NaN."""
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
