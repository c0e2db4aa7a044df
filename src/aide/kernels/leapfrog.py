r"""Leapfrog steps: what HMC, MALA and NUTS follow.

With a metric $L L^\top$, one step of size $\epsilon$ is
$v \leftarrow v + \frac\epsilon2 L^\top\nabla\log\gamma(x)$, $x \leftarrow x + \epsilon L v$, and
the first line again; a step of size $-\epsilon$ undoes it. Each line is a shear: the Jacobian is 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.types import LogDensity, Parameter, Value
from aide._core.validate import check_scalar
from aide.kernels.metric import Metric, pulled, stretched

Climb = Callable[[Array], tuple[Array, Array]]
r"""A flat position to $\log\gamma(x)$ and the slope $L^\top\nabla\log\gamma(x)$."""

DIVERGED = 1000.0
"""Nats by which a trajectory's energy must grow before NaN on it is put down to its divergence."""


def climb_of(
    log_density: LogDensity, unravel: Callable[[Array], Value], metric: Metric | None
) -> Climb:
    """The log density of flat positions with its slope."""

    def evaluate(flat: Array) -> Array:
        value = check_scalar("log_density", log_density(unravel(flat)))
        return jnp.asarray(value, flat.dtype)

    def climb(flat: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(evaluate)(flat)
        return value, pulled(metric, gradient)

    return climb


class Leap(NamedTuple):
    """A leapfrog step but for its last line: the momentum is that of half a step."""

    position: Array
    half_momentum: Array
    log_density: Array
    slope: Array


def leap(
    climb: Climb,
    step_size: Parameter,
    metric: Metric | None,
    position: Array,
    momentum: Array,
    slope: Array,
) -> Leap:
    """From a position with its slope, and a momentum, one step ahead."""
    middle = momentum + 0.5 * step_size * slope
    ahead = position + step_size * stretched(metric, middle)
    return Leap(ahead, middle, *climb(ahead))
