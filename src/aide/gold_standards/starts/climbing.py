"""Optimisers: which modes a density has, and how wide they are."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

STRETCH = 1.5
"""The scale of a mode relative to that of the Laplace approximation."""
WIDEST, NARROWEST = 30.0, 1e-6
"""Largest scale, where the density is flat; smallest, relative to the largest."""
NEAR = 0.1
"""Ends are the same mode if they are nearer, per coordinate, squared, in units of its width."""

Flat = np.ndarray


class Mode(NamedTuple):
    """A mode.

    Attributes:
        log_mass: Of the Laplace approximation, up to a constant that all modes share.
        mean: Where it is.
        factor: The Cholesky factor of the Laplace covariance, stretched.
    """

    log_mass: float
    mean: Flat
    factor: np.ndarray

    def holds(self, end: Flat) -> bool:
        """Whether a climb ended here."""
        white = np.linalg.solve(self.factor / STRETCH, end - self.mean)
        return bool(np.sum(white**2) < NEAR * white.size)


class Optimiser:
    """Climbs a log density of flat states, and looks at the curvature where climbs end."""

    def __init__(self, log_density: Callable[[Array], Array]):
        self._value_and_slope = jax.jit(jax.value_and_grad(lambda flat: -log_density(flat)))
        self._hessian = jax.jit(jax.hessian(log_density))

    def climb(self, begins: Iterable[Flat], most_steps: int = 15_000) -> list[tuple[Flat, float]]:
        """Where climbs end that set out from these points, with the log density there."""
        from scipy.optimize import minimize

        ends, options = [], {"maxiter": most_steps}
        for begin in begins:
            end = minimize(self._objective, begin, jac=True, method="L-BFGS-B", options=options)
            if np.isfinite(end.fun) and end.fun < 1e99:
                ends.append((end.x, -float(end.fun)))
        return ends

    def modes_of(self, ends: list[tuple[Flat, float]], most: int) -> list[Mode]:
        """Different modes among the ends of climbs, highest first, so many at most.

        Ends where second derivatives are not finite are none.
        """
        found = list[Mode]()
        for end, height in sorted(ends, key=lambda pair: -pair[1]):
            if len(found) == most or any(mode.holds(end) for mode in found):
                continue
            precision = -np.asarray(self._hessian(end))
            if np.all(np.isfinite(precision)):
                factor = _factor(precision)
                found.append(Mode(height + float(np.sum(np.log(np.diag(factor)))), end, factor))
        return found

    def _objective(self, flat: Flat) -> tuple[float, Flat]:
        found = self._value_and_slope(jnp.asarray(flat))
        value, slope = (np.asarray(part, np.float64) for part in found)
        bad = ~np.isfinite(value) | ~np.all(np.isfinite(slope))
        return (1e100, np.zeros_like(flat)) if bad else (float(value), slope)


def join_modes(known: Iterable[Mode], others: Iterable[Mode]) -> tuple[Mode, ...]:
    """All of the first, and those of the others that are not among them."""
    known = tuple(known)
    return known + tuple(o for o in others if not any(mode.holds(o.mean) for mode in known))


def _factor(precision: np.ndarray) -> np.ndarray:
    """Cholesky factor of the stretched inverse; directions without curvature get `WIDEST`.

    Where optimisers ran up a spike without end, its width is cut off at what rounding can tell.
    """
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    scales = 1 / np.sqrt(np.maximum(values, WIDEST**-2))
    scales = np.maximum(scales, NARROWEST * scales.max())
    return np.linalg.cholesky((vectors * (STRETCH * scales) ** 2) @ vectors.T)
