r"""Metropolis–Hastings kernels as involutions with noise.

Draw noise $v \sim g(\cdot \mid x)$, apply an involution $(y, v') = \varphi(x, v)$ of Jacobian 1
and accept $y$ with probability $\min\{1, \gamma(y) g(v' \mid y) / (\gamma(x) g(v \mid x))\}$.
Every kernel of this form is reversible. A new one states $g$ and $\varphi$.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._distribution import check_distribution, log_density_of, sample_from
from aide._normal import standard_normal
from aide._numerics import as_parameter
from aide._random import derive_keys
from aide._types import Key, LogDensity, LogProb, Value
from aide._validate import check_positive, check_scalar
from aide.kernels.kernel import AbstractKernel


class AbstractMetropolis(AbstractKernel):
    r"""A kernel given by noise $g$ and an involution $\varphi$."""

    @abstractmethod
    def noise(self, key: Key, x: Value) -> Value:
        r"""Sample $v \sim g(\cdot \mid x)$."""

    @abstractmethod
    def log_noise(self, x: Value, v: Value) -> LogProb:
        r"""$\log g(v \mid x)$, up to a constant that does not depend on $x$."""

    @abstractmethod
    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        r"""$\varphi(x, v)$, with $\varphi(\varphi(x, v)) = (x, v)$ and $|\det J| = 1$."""

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """See `AbstractKernel`.

        A point where `log_density` is NaN is accepted and never left, so that the NaN reaches the
        result instead of passing for a rejection. A proposal that overflowed is a rejection.
        """
        key_noise, key_accept = derive_keys(key, 2)
        v = self.noise(key_noise, x)
        y, w = self.involution(log_density, x, v)
        here = check_scalar("log_density", log_density(x))
        there = log_density(y)
        log_accept = there + self.log_noise(y, w) - here - self.log_noise(x, v)
        accept = jnp.log(jax.random.uniform(key_accept)) < log_accept
        accept = (accept | jnp.isnan(there)) & _all_finite((y, w)) & ~jnp.isnan(here)
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), y, x)

    def reversal(self) -> AbstractKernel:
        """See `AbstractKernel`: detailed balance holds."""
        return self


class RandomWalk(AbstractMetropolis):
    r"""$y = x + s\,v$ with standard normal $v$; $\varphi(x, v) = (x + s v, -v)$.

    Args:
        scale: $s$: a number, or numbers that broadcast against the flattened state.
    """

    scale: Array = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        check_positive("scale", self.scale)

    def noise(self, key: Key, x: Value) -> Value:
        """See `AbstractMetropolis`."""
        return standard_normal_like(key, x)

    def log_noise(self, x: Value, v: Value) -> LogProb:
        """See `AbstractMetropolis`: symmetric, so a constant serves."""
        return jnp.zeros(())

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """See `AbstractMetropolis`."""
        flat, unravel = ravel_pytree(x)
        shift, _ = ravel_pytree(v)
        return unravel(flat + self.scale * shift), jax.tree.map(jnp.negative, v)


class Independence(AbstractMetropolis):
    r"""$y = v$ drawn from a fixed proposal; $\varphi$ swaps $x$ and $v$.

    Args:
        proposal: Anything with `sample(key)` and `log_prob(x)` or `log_density(x)`; it must cover
            the posterior.
    """

    proposal: Any

    def __check_init__(self) -> None:
        check_distribution("proposal", self.proposal)

    def noise(self, key: Key, x: Value) -> Value:
        """See `AbstractMetropolis`."""
        return sample_from(self.proposal, key)

    def log_noise(self, x: Value, v: Value) -> LogProb:
        """See `AbstractMetropolis`."""
        return log_density_of(self.proposal, v)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """See `AbstractMetropolis`."""
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), v, x), x


def standard_normal_like(key: Key, x: Value) -> Value:
    """Independent standard normals in the structure of `x`; the state must be real-valued."""
    flat, unravel = ravel_pytree(x)
    if not jnp.issubdtype(flat.dtype, jnp.floating):
        raise TypeError(
            f"this kernel moves real-valued states, got dtype {flat.dtype}. Use GibbsSites or a "
            "kernel of your own for discrete states."
        )
    return unravel(standard_normal(key, flat.shape, flat.dtype))


def _all_finite(tree: Value) -> Array:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
