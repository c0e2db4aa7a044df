r"""Kernels that move in other coordinates, in which the density is easier: metrics and funnels.

With a *metric* $M^{-1} = L L^\top$, an estimate of the covariance, a kernel steps by $L v$ instead
of $v$ and sees the gradient $L^\top\nabla$: it moves in the coordinates $L^{-1}x$, in which the
density is round. Noise stays $v \sim N(0, I)$, so that involutions keep their Jacobian of 1.

Where the scale of some coordinates depends on others, as in a hierarchical model, no step size
suits all places: a *funnel*. In the coordinates $z$ with
$x_j = b_j^\top x + e^{s_j^\top(x - c)} z_j$ its scale is the same everywhere; this is what writing
the model in non-centred form does.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.jax_compat import is_traced
from aide._core.numerics import as_parameter, ravel_reals
from aide._core.types import Key, LogDensity, LogProb, Numbers, Parameter, Value
from aide._core.validate import check_positive
from aide._core.versions import ask
from aide.kernels.kernel import (
    AbstractKernel,
    AbstractWrapper,
    AnyKernel,
    reversal_of,
)


class Metric(eqx.Module):
    r"""A metric by its factor $L$: a vector of scales, or a lower triangular matrix.

    Built from $L L^\top$ by `as_metric`; `Metric(factor)` takes $L$ itself.

    Args:
        factor: $L$.

    Example:
        >>> metric = aide.kernels.Metric([1.0, 3.0])  # variances 1 and 9
        >>> metric.stretch(jnp.ones(2)).tolist()
        [1.0, 3.0]
    """

    factor: Parameter = eqx.field(converter=as_parameter)

    def stretch(self, v: Array) -> Array:
        r"""$L v$."""
        factor = jnp.asarray(self.factor)
        return factor @ v if factor.ndim == 2 else factor * v

    def pull(self, gradient: Array) -> Array:
        r"""$L^\top g$."""
        factor = jnp.asarray(self.factor)
        return factor.T @ gradient if factor.ndim == 2 else factor * gradient


def as_metric(metric: "Numbers | Metric | None") -> Metric | None:
    r"""A metric from $M^{-1}$: variances, or a covariance matrix, factorised once.

    A matrix must be symmetric and positive definite, variances positive. `None`, the identity, and
    a `Metric` are returned as they are.
    """
    if metric is None or isinstance(metric, Metric):
        return metric
    if is_traced(metric):
        return Metric(jnp.linalg.cholesky(metric) if metric.ndim == 2 else jnp.sqrt(metric))
    values = np.asarray(metric, np.float64)
    if values.ndim < 2:
        check_positive("metric", values)
        return Metric(np.sqrt(values))
    if values.ndim > 2 or values.shape[0] != values.shape[1]:
        raise ValueError(
            f"metric must be a vector of variances or a covariance matrix, got shape "
            f"{values.shape}. For one metric per step, stack kernels: "
            "aide.kernels.stack_kernels([...])."
        )
    if not np.allclose(values, values.T, rtol=1e-8, atol=0.0):
        raise ValueError("metric must be symmetric, got a matrix that is not: use (m + m.T) / 2.")
    try:
        return Metric(np.linalg.cholesky(values))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(values)[0])
        raise ValueError(
            f"metric must be positive definite, got a matrix with the eigenvalue {smallest:.3g}: "
            "add a little to its diagonal."
        ) from None


def stretched(metric: Metric | None, v: Array) -> Array:
    r"""$L v$; $v$ without a metric."""
    return v if metric is None else metric.stretch(v)


def pulled(metric: Metric | None, gradient: Array) -> Array:
    r"""$L^\top g$; $g$ without a metric."""
    return gradient if metric is None else metric.pull(gradient)


class ScaledCoordinates(eqx.Module):
    r"""$x_j = b_j^\top z + e^{s_j^\top(z - c)} z_j$ for children $j$, $x_j = z_j$ for the others.

    Rows of children have entries for parents alone, which the map does not change. So the inverse
    is explicit, and $\log|\partial x/\partial z| = \sum_j s_j^\top(z - c)$.

    Args:
        locations: Rows $b_j$, zero for coordinates that are no children.
        slopes: Rows $s_j$, zero for coordinates that are no children.
        centre: $c$.

    Example:
        >>> funnel = aide.kernels.ScaledCoordinates(  # the sd of x[1] is exp(x[0])
        ...     locations=np.zeros((2, 2)), slopes=[[0.0, 0.0], [1.0, 0.0]], centre=[0.0, 0.0]
        ... )
        >>> funnel.back(jnp.array([0.0, 2.0])).tolist()
        [0.0, 2.0]
        >>> float(funnel.log_volume(jnp.array([3.0, 2.0])))
        3.0
    """

    locations: Parameter = eqx.field(converter=as_parameter)
    slopes: Parameter = eqx.field(converter=as_parameter)
    centre: Parameter = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        arrays = (self.locations, self.slopes)
        if not all(isinstance(array, np.ndarray) and array.ndim == 2 for array in arrays):
            return  # stacked, or inside a program: checked when the single map was built
        children = [np.any(np.asarray(array) != 0, axis=1) for array in arrays]
        parents = [np.any(np.asarray(array) != 0, axis=0) for array in arrays]
        both = np.flatnonzero((children[0] | children[1]) & (parents[0] | parents[1]))
        if len(both):
            raise ValueError(
                f"coordinate {both[0]} is a child (scaled or shifted by others) and a parent "
                "(others are scaled or shifted by it): make it one of the two."
            )

    def away(self, x: Array) -> Array:
        """Return flat $z$ from flat $x$."""
        return (x - jnp.asarray(self.locations) @ x) * jnp.exp(-self._log_scales(x))

    def back(self, z: Array) -> Array:
        """Return flat $x$ from flat $z$."""
        return jnp.asarray(self.locations) @ z + jnp.exp(self._log_scales(z)) * z

    def log_volume(self, z: Array) -> LogProb:
        r"""$\log|\partial x/\partial z|$."""
        return jnp.sum(self._log_scales(z))

    def _log_scales(self, z: Array) -> Array:
        return jnp.asarray(self.slopes) @ (z - jnp.asarray(self.centre))


class InCoordinates(AbstractWrapper):
    r"""A kernel on $z$, for the density $\gamma(x(z))\,|\partial x/\partial z|$.

    If the kernel leaves every density invariant, the kernel on $x$ leaves $\gamma$ invariant.

    Args:
        coordinates: The map between a flat real-valued state and $z$.
        kernel: The kernel that moves $z$, a vector.

    Example:
        >>> funnel = aide.kernels.ScaledCoordinates(
        ...     locations=np.zeros((2, 2)), slopes=[[0.0, 0.0], [1.0, 0.0]], centre=[0.0, 0.0]
        ... )
        >>> kernel = aide.kernels.InCoordinates(funnel, aide.kernels.RandomWalk(0.5))
        >>> log_joint = lambda x: -0.5 * x[0] ** 2 - x[0] - 0.5 * (x[1] * jnp.exp(-x[0])) ** 2
        >>> kernel.step(jax.random.key(0), log_joint, jnp.zeros(2)).shape
        (2,)
    """

    coordinates: ScaledCoordinates
    kernel: AnyKernel

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Change coordinates, make a step, change back."""
        flat, unravel = ravel_reals(x)
        z, log_density_of_z = self.coordinates.away(flat), self.density(log_density, x)
        return unravel(self.coordinates.back(self.kernel.step(key, log_density_of_z, z)))

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and the acceptance rates of the kernel on $z$."""
        flat, unravel = ravel_reals(x)
        z, log_density_of_z = self.coordinates.away(flat), self.density(log_density, x)
        moved, share = ask(AbstractKernel, self.kernel, "observe_step", key, log_density_of_z, z)
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
