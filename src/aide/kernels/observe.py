"""Watching a kernel: what it accepts, and how far it jumps."""

import jax.numpy as jnp

from aide._core.numerics import flat_reals
from aide._core.observation import ObservedMove
from aide._core.types import Key, LogDensity, Value
from aide._core.versions import ask
from aide.kernels.kernel import AbstractKernel, AnyKernel


def observe_kernel(key: Key, kernel: AnyKernel, log_density: LogDensity, x: Value) -> ObservedMove:
    """A step, the one that `kernel.step` makes with this key, as a move without a weight."""
    y, acceptance = ask(AbstractKernel, kernel, "observe_step", key, log_density, x)
    squared_jump = (flat_reals(y) - flat_reals(x)) ** 2
    return ObservedMove(y, jnp.zeros(()), acceptance, squared_jump)
