"""Metropolis kernels on discrete states, with finitely many proposals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, LogDensity, LogProb, Value
from aide.kernels.kernel import AbstractInvariantKernel
from aide.kernels.metropolis import AbstractMetropolis
from aide.kernels.retrace import NO_RECORD, Recorded, Retraced


class FiniteNoise(AbstractInvariantKernel):
    r"""A Metropolis kernel whose noise takes finitely many values $v_0, \dots, v_{n-1}$.

    It steps as the kernel does. The record of a step is the branch alone: which $v_i$, and whether
    it was accepted (branch $2i + 1$) or not ($2i$). Learned meta-inference for discrete states
    needs this, because a table has no room for noise.

    Args:
        kernel: The kernel, with involution $\varphi(x, v_i) = (y, v_j)$.
        noises: All values of its noise, stacked along a leading axis, exactly as it draws them and
            as the involution returns them. One that is missing is an error when it is drawn.
    """

    kernel: AbstractMetropolis
    noises: Value = eqx.field(converter=lambda tree: jax.tree.map(np.asarray, tree))

    def __check_init__(self) -> None:
        lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.noises)}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                f"noises must be stacked along one leading axis, got lengths {sorted(lengths)}."
            )

    @property
    def num_branches(self) -> int:
        """Rejected and accepted, for each value of the noise."""
        return 2 * np.shape(jax.tree.leaves(self.noises)[0])[0]

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Step as the kernel does."""
        return self.kernel.step(key, log_density, x)

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The kernel's step, and whether it was accepted."""
        return self.kernel.observe_step(key, log_density, x)

    def reversal(self) -> "FiniteNoise":
        """The kernel itself: detailed balance holds."""
        return self

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step; the record is its branch, and `NO_RECORD` for a noise that is not listed."""
        value, noise, accepted = self.kernel.record(key, log_density, x)
        same = jax.tree.map(_equal, self.noises, noise)
        same = jnp.all(jnp.stack(jax.tree.leaves(same)), axis=0)
        branch = jnp.where(jnp.any(same), 2 * jnp.argmax(same) + accepted, NO_RECORD)
        return Recorded(value, (), branch.astype(jnp.int32))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        """There is none: the branch says it all."""
        return ()

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        r"""Undo a step for every $v_i$, rejected and accepted."""
        undo = lambda v: self.kernel.retrace(log_density, y, log_density_y, v)
        found = jax.vmap(undo)(jax.tree.map(jnp.asarray, self.noises))
        return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), found)


def _equal(all_values: Array, value: Array) -> Array:
    """Which of the stacked values equal this one."""
    equal = jnp.asarray(all_values) == jnp.asarray(value)
    return jnp.all(equal.reshape(equal.shape[0], -1), axis=1)
