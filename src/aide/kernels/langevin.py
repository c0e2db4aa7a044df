r"""Unadjusted Langevin: no accept step, so it never reaches the posterior."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._core.normal import standard_normal
from aide._core.numerics import as_log, as_parameter
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.validate import check_positive, check_scalar, check_size
from aide.kernels.kernel import AbstractKernel
from aide.kernels.noise import log_standard_normal, ravel_reals
from aide.kernels.retrace import Recorded, Retraced


class AbstractLangevin(AbstractKernel):
    r"""$y = x + \frac{h^2}{2} d_i(x) + h z$ with one of several drifts, drawn at random.

    The record of a step is $v = (x - y)/h$; the drift that was used is summed out:
    $k(y \mid x) = \frac1B\sum_i N(y; x + \frac{h^2}{2} d_i(x), h^2)$. Going back, the kernel
    guesses that the chain has arrived and the step is small, when it is nearly reversible:
    $x \sim N(y + \frac{h^2}{2}\nabla\log\gamma(y), h^2)$. For a Gaussian $\gamma$ that guess is
    the exact reversal in equilibrium with the *shadow*
    $\gamma\,e^{\frac{h^2}{8}|\nabla\log\gamma|^2}$ of the density, whatever the step size.
    """

    num_branches: ClassVar[int] = 1
    step_size: eqx.AbstractVar[Parameter]

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """One step with a drift drawn at random; `log_density` is not left invariant."""
        return self.record(key, log_density, x).value

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is $v = (x - y)/h$."""
        key_drift, key_noise = derive_keys(key, 2)
        flat, unravel = ravel_reals(x)
        drifts = self._drifts(log_density, x)
        drift = drifts[jax.random.randint(key_drift, (), 0, drifts.shape[0])]
        z = standard_normal(key_noise, flat.shape, flat.dtype)
        y = flat + 0.5 * self.step_size**2 * drift + self.step_size * z
        return Recorded(unravel(y), unravel((flat - y) / self.step_size), jnp.zeros((), int))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""$v \sim N(\frac h2 \nabla\log\gamma(y), I)$."""
        flat, unravel = ravel_reals(y)
        z = standard_normal(key, flat.shape, flat.dtype)
        return self.reverse_noise_from(unravel(z), log_density, y)

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Value) -> Value:
        r"""$\frac h2 \nabla\log\gamma(y) + z$, with the normals $z$ given."""
        flat, unravel = ravel_pytree(z)
        return unravel(jnp.asarray(0.5 * self.step_size * _gradient(log_density, y) + flat))

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step: $x = y + h v$. Densities are in units of $v$, so that $h$ cancels."""
        flat, unravel = ravel_reals(y)
        v, _ = ravel_pytree(noise)
        x = unravel(flat + self.step_size * v)
        z = -v - 0.5 * self.step_size * self._drifts(log_density, x)
        forward = jax.nn.logsumexp(jax.vmap(log_standard_normal)(z)) - jnp.log(z.shape[0])
        own = log_standard_normal(v - 0.5 * self.step_size * _gradient(log_density, y))
        there = as_log(log_density(x))
        return Retraced(
            jax.tree.map(lambda leaf: leaf[None], x), there[None], forward[None], own[None]
        )

    def shadow_step(self, size: int) -> Array:
        """$h$ for each of the numbers of a state: it says how far the shadow is from the density.

        Learned meta-inference asks kernels that have one.
        """
        return jnp.broadcast_to(jnp.asarray(self.step_size, float), (size,))

    def _drifts(self, log_density: LogDensity, x: Value) -> Array:
        return _gradient(log_density, x)[None]


class Ula(AbstractLangevin):
    r"""Unadjusted Langevin: $y = x + \frac{h^2}{2}\nabla\log\gamma(x) + h z$.

    Args:
        step_size: $h$: a number, or numbers that broadcast against the flattened state.
    """

    step_size: Parameter = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)


class Sgld(AbstractLangevin):
    r"""Stochastic-gradient Langevin (Welling & Teh 2011) with a fixed step size.

    Args:
        step_size: $h$, as in `Ula`.
        gradient: `gradient(i, x)` estimates $\nabla\log\gamma(x)$ from mini-batch `i`; it has the
            structure of `x`.
        num_batches: Mini-batches `i` = 0, 1, …, one of which is drawn uniformly at every step.
    """

    step_size: Parameter = eqx.field(converter=as_parameter)
    gradient: Callable[[Array, Value], Value]
    num_batches: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_size("num_batches", self.num_batches)

    def _drifts(self, log_density: LogDensity, x: Value) -> Array:
        batches = jnp.arange(self.num_batches)
        return jax.vmap(lambda i: ravel_pytree(self.gradient(i, x))[0])(batches)


def _gradient(log_density: LogDensity, x: Value) -> Array:
    flat, unravel = ravel_reals(x)

    def evaluate(flat: Array) -> Array:
        return jnp.asarray(check_scalar("log_density", log_density(unravel(flat))), flat.dtype)

    return jax.grad(evaluate)(flat)
