"""HMC steps of several sizes in a row, as one kernel that is compiled once."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from aide._core.numerics import as_parameter
from aide._core.random import derive
from aide._core.types import Key, LogDensity, Parameter, Value
from aide.kernels.coordinates import InCoordinates, Metric
from aide.kernels.hamiltonian import Hmc
from aide.kernels.kernel import AbstractInvariantKernel, AnyKernel

NUM_RUNGS = 4
"""Largest number of step sizes in a row: a choice."""
Count = int | Int[Array, ""]
"""A number that may be traced."""


class Rungs(AbstractInvariantKernel):
    r"""HMC steps in a row, in a loop: the same transition as a `Cycle` of the steps.

    Sizes, lengths and the number of steps are traced: one program serves every list of at most
    as many sizes.

    Args:
        sizes: Step sizes, in the order in which the steps are taken.
        lengths: Number of leapfrog steps for each size.
        metric: The metric of all steps.
        num: Number of sizes in use, the first ones; by default all.
        is_backward: Whether the steps are taken in reverse order.
    """

    sizes: Parameter = eqx.field(converter=as_parameter)
    lengths: Any
    metric: Metric
    num: Any
    is_backward: bool = eqx.field(static=True, default=False)

    def __init__(
        self,
        sizes: Any,
        lengths: Any,
        metric: Metric,
        num: Count | None = None,
        is_backward: bool = False,
    ):
        self.sizes = as_parameter(sizes)
        self.lengths = jnp.asarray(lengths, int)
        self.metric = metric
        self.num = jnp.asarray(np.shape(sizes)[0] if num is None else num, int)
        self.is_backward = is_backward

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Take a step of each size, in order."""
        return self.observe_step(key, log_density, x)[0]

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """Take the same step; also return the acceptance of each size, in order of the steps."""

        def body(index: Array, state: tuple[Value, Array]) -> tuple[Value, Array]:
            x, shares = state
            part = self._at(self.num - 1 - index if self.is_backward else index)
            y, share = part.observe_step(derive(key, index), log_density, x)
            return y, shares.at[index].set(share[0])

        start = (jax.tree.map(jnp.asarray, x), jnp.zeros(np.shape(self.sizes)))
        return jax.lax.fori_loop(0, self.num, body, start)

    def reversal(self) -> "Rungs":
        """The same steps in reverse order: every HMC step is its own reversal."""
        return Rungs(self.sizes, self.lengths, self.metric, self.num, not self.is_backward)

    def retraceable_parts(self) -> tuple[AnyKernel, ...]:
        """The steps of one transition, in order; not for a kernel that `padded` made."""
        parts = tuple(self._at(place) for place in range(np.shape(self.sizes)[0]))
        return parts[::-1] if self.is_backward else parts

    def padded(self, most: int) -> "Rungs":
        """The same kernel with room for more step sizes, which are not used."""
        more = most - len(np.asarray(self.sizes))
        sizes = np.concatenate([np.asarray(self.sizes), np.ones(more)])
        lengths = np.concatenate([np.asarray(self.lengths), np.zeros(more, int)])
        return Rungs(sizes, lengths, self.metric, self.num, self.is_backward)

    def _at(self, place: Any) -> Hmc:
        return Hmc(jnp.asarray(self.sizes)[place], jnp.asarray(self.lengths)[place], self.metric)


def with_room(kernel: AnyKernel) -> tuple[AnyKernel, int | None]:
    """The same kernel with room for `NUM_RUNGS` step sizes, and its number of step sizes, if any.

    Kernels with different numbers of step sizes then share a program.
    """
    if isinstance(kernel, InCoordinates):
        inner, num = with_room(kernel.kernel)
        return InCoordinates(kernel.coordinates, inner), num
    if isinstance(kernel, Rungs):
        return kernel.padded(NUM_RUNGS), int(kernel.num)
    return kernel, None
