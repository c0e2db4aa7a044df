r"""Metrics of real-valued kernels: their steps in units of the spread of the density.

With a metric $M^{-1} = L L^\top$, an estimate of the covariance, a kernel steps by $L v$ instead of
$v$ and sees the gradient $L^\top\nabla$: it moves in the coordinates $L^{-1}x$, in which the
density is round. Noise stays $v \sim N(0, I)$, so that involutions keep their Jacobian of 1.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.numerics import as_parameter
from aide._core.types import Numbers, Parameter
from aide._core.validate import check_positive


class Metric(eqx.Module):
    r"""A metric by its factor $L$: a vector of scales, or a lower triangular matrix.

    Built from $L L^\top$ by `as_metric`; `Metric(factor)` takes $L$ itself.
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

    An error unless variances are positive, a matrix symmetric and positive definite. `None`, the
    identity, and a `Metric` stay what they are.
    """
    if metric is None or isinstance(metric, Metric):
        return metric
    if isinstance(metric, jax.core.Tracer):
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
