r"""Gradient-based kernels: HMC, and MALA as HMC with one leapfrog step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from aide._numerics import as_parameter
from aide._types import Key, LogDensity, LogProb, Value
from aide._validate import check_count, check_positive, check_scalar
from aide.kernels.metropolis import (
    AbstractMetropolis,
    log_standard_normal,
    standard_normal_like,
)


class Hmc(AbstractMetropolis):
    r"""Hamiltonian Monte Carlo: $v$ is the momentum, $\varphi$ leapfrog steps and a flip.

    Args:
        step_size: A number, or numbers that broadcast against the flattened state (a diagonal
            preconditioner).
        num_leapfrog: Leapfrog steps per transition.
    """

    step_size: Array = eqx.field(converter=as_parameter)
    num_leapfrog: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("num_leapfrog", self.num_leapfrog)

    def noise(self, key: Key, x: Value) -> Value:
        """See `AbstractMetropolis`."""
        return standard_normal_like(key, x)

    def reverse_noise_from(self, z: Value, log_density: LogDensity, y: Value) -> Value:
        """See `Retraceable`."""
        return z

    def log_noise(self, x: Value, v: Value) -> LogProb:
        """See `AbstractMetropolis`: a standard normal momentum."""
        return log_standard_normal(v)

    def involution(self, log_density: LogDensity, x: Value, v: Value) -> tuple[Value, Value]:
        """See `AbstractMetropolis`."""
        position, unravel = ravel_pytree(x)
        momentum, _ = ravel_pytree(v)

        def evaluate(flat: Array) -> Array:
            value = check_scalar("log_density", log_density(unravel(flat)))
            return jnp.asarray(value, flat.dtype)

        def leapfrog(carry: Any, _: Any) -> tuple[Any, None]:
            position, momentum, slope, broken = carry
            middle = momentum + 0.5 * self.step_size * slope
            ahead = position + self.step_size * middle
            value, slope = jax.value_and_grad(evaluate)(ahead)
            # Stop where the density is NaN: `step` then accepts the point and the NaN is seen.
            # An overflow, or a density of 0 without a gradient, is a rejection instead.
            here = broken | (jnp.isnan(value) & jnp.all(jnp.isfinite(ahead)))
            after = (
                jnp.where(broken, position, ahead),
                jnp.where(here, 0.0, middle + 0.5 * self.step_size * slope),
                jnp.where(here, 0.0, slope),
            )
            return (*(part.astype(position.dtype) for part in after), here), None

        carry = (position, momentum, jax.grad(evaluate)(position), jnp.asarray(False))
        if self.num_leapfrog == 1:
            (position, momentum, _, _), _ = leapfrog(carry, None)
        else:
            carry, _ = jax.lax.scan(leapfrog, carry, None, length=self.num_leapfrog)
            position, momentum, _, _ = carry
        return unravel(position), unravel(-momentum)


def mala(step_size: Any) -> Hmc:
    r"""The Metropolis-adjusted Langevin algorithm: $y = x + \frac{h^2}{2}\nabla\log\gamma + h v$.

    Args:
        step_size: $h$; one leapfrog step of that size is the same transition.
    """
    return Hmc(step_size, 1)
