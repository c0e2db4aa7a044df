r"""Kernels that move in other coordinates, in which the density is easier.

Where the scale of some coordinates depends on others, as in a hierarchical model, no step size
suits all places: a funnel. In the coordinates $z$ with $x_j = b_j^\top x + e^{s_j^\top(x - c)} z_j$
its scale is the same everywhere; this is what writing the model in non-centred form does.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.numerics import as_parameter
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide._core.versions import ask
from aide.kernels.kernel import (
    AbstractKernel,
    AbstractWrapper,
    AnyKernel,
    reversal_of,
)
from aide.kernels.noise import ravel_reals


class ScaledCoordinates(eqx.Module):
    r"""$x_j = b_j^\top z + e^{s_j^\top(z - c)} z_j$ for children $j$, $x_j = z_j$ for the others.

    Rows of children look at others alone, which are the same in both, so that the map is inverted
    in one line and $\log|\partial x/\partial z| = \sum_j s_j^\top(z - c)$.

    Args:
        locations: Rows $b_j$; those of coordinates that are no children are zero.
        slopes: Rows $s_j$, likewise.
        centre: $c$.
    """

    locations: Parameter = eqx.field(converter=as_parameter)
    slopes: Parameter = eqx.field(converter=as_parameter)
    centre: Parameter = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        arrays = (self.locations, self.slopes)
        if not all(isinstance(array, np.ndarray) and array.ndim == 2 for array in arrays):
            return  # stacked, or in a program: looked at before
        used = [np.any(np.asarray(array) != 0, axis=1) for array in arrays]
        seen = [np.any(np.asarray(array) != 0, axis=0) for array in arrays]
        both = np.flatnonzero((used[0] | used[1]) & (seen[0] | seen[1]))
        if len(both):
            raise ValueError(
                f"coordinate {both[0]} is scaled or shifted and is what others are scaled or "
                "shifted by: each may be one of the two."
            )

    def away(self, x: Array) -> Array:
        """$z$, flat, from $x$, flat."""
        return (x - jnp.asarray(self.locations) @ x) * jnp.exp(-self._log_scales(x))

    def back(self, z: Array) -> Array:
        """$x$ from $z$."""
        return jnp.asarray(self.locations) @ z + jnp.exp(self._log_scales(z)) * z

    def log_volume(self, z: Array) -> LogProb:
        r"""$\log|\partial x/\partial z|$."""
        return jnp.sum(self._log_scales(z))

    def _log_scales(self, z: Array) -> Array:
        return jnp.asarray(self.slopes) @ (z - jnp.asarray(self.centre))


class InCoordinates(AbstractWrapper):
    r"""A kernel on $z$, for the density $\gamma(x(z))\,|\partial x/\partial z|$.

    If the kernel leaves every density it is given invariant, this leaves $\gamma$ invariant.

    Args:
        coordinates: The map between a flat real-valued state and $z$.
        kernel: The kernel that moves $z$, a vector.
    """

    coordinates: ScaledCoordinates
    kernel: AnyKernel

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Change coordinates, make a step, change back."""
        flat, unravel = ravel_reals(x)
        seen = self.density(log_density, x), self.coordinates.away(flat)
        return unravel(self.coordinates.back(self.kernel.step(key, *seen)))

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and what the kernel on $z$ accepted."""
        flat, unravel = ravel_reals(x)
        seen = self.density(log_density, x), self.coordinates.away(flat)
        moved, share = ask(AbstractKernel, self.kernel, "observe_step", key, *seen)
        return unravel(self.coordinates.back(moved)), share

    def reversal(self) -> "InCoordinates":
        """The reversal of the kernel on $z$, in the same coordinates."""
        return InCoordinates(self.coordinates, reversal_of(self.kernel))

    def density(self, log_density: LogDensity, like: Value) -> LogDensity:
        r"""$\log\gamma(x(z)) + \log|\partial x/\partial z|$; `like` has the structure of $x$."""
        _, unravel = ravel_reals(like)

        def log_density_of_z(z: Array) -> LogProb:
            value = log_density(unravel(self.coordinates.back(z)))
            return value + self.coordinates.log_volume(z)

        return log_density_of_z
