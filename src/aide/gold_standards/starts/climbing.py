r"""Optimisers: the modes of a density, and their widths.

Results do not depend on the units of the coordinates: a climb has arrived when the gradient is
small in units of the Laplace approximation, $g^\top H^{-1} g \ll 1$, however long and thin this is.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, LogDensity, LogProb, Value
from aide.engine.programs.prepared import PreparedRuns
from aide.engine.programs.programs import compile_quickly
from aide.gold_standards.pilots.population import unraveller

STRETCH = 1.5
"""Scale of a mode relative to the scale of the Laplace approximation: a choice."""
WIDEST = 30.0
"""Scale of a direction without curvature, in units of the conditional scales: a choice."""
FLAT = 1e-12
"""Curvature, in the same units, that counts as none: rounding."""
NARROWEST = 1e-12
"""Least scale relative to the size of a mode's coordinates: optimisers climb spikes without end."""
NEAR = 0.1
"""Two ends are one mode up to this mean squared distance per coordinate, in units of the width."""
BARRIER = 0.5
"""Two ends are one mode if the density between them falls by less than this, in nats: a choice."""
NUM_BETWEEN = 15
"""Number of points on the segment between two ends at which the fall is measured: a choice."""
ARRIVED = 1e-3
"""Length of the gradient, in units of the Laplace approximation, that ends a climb: a choice."""
MOST_ROUNDS = 5
"""Largest number of rounds of Newton steps, each in units of the round before: a choice."""
MOST_NEWTON = 50
"""Largest number of Newton steps in a round: a choice."""
GENTLE = 0.1
"""Least fall of the log density, in nats, at one scale from a mode along a direction with hardly
any curvature: a choice."""
STEEP = 4.0
"""Largest fall of the log density, in nats, at one scale along such a direction: a choice."""

Flat = np.ndarray
DensityOfVectors = Callable[[Array], Array]
End = tuple[Flat, float]


class Mode(NamedTuple):
    """A mode of a density.

    Attributes:
        log_mass: Log mass of the Laplace approximation, up to a constant that all modes share.
        mean: The place of the mode.
        factor: The Cholesky factor of the Laplace covariance, stretched.
        is_rest: Whether this stands for everything outside of all modes.
    """

    log_mass: float
    mean: Flat
    factor: np.ndarray
    is_rest: bool = False

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distances of points (by rows), per coordinate, in units of the mode's width."""
        from scipy.linalg import solve_triangular

        white = solve_triangular(self.factor / STRETCH, (points - self.mean).T, lower=True)
        return np.mean(np.square(np.asarray(white)), axis=0)

    def holds(self, end: Flat) -> bool:
        """Whether the end of a climb is this mode."""
        return bool(self.distances(end[None])[0] < NEAR)


class FlatDensity(eqx.Module):
    """A log density of flat states.

    Args:
        log_joint: The log density of states.
        like: A state of the right structure.
    """

    log_joint: LogDensity
    like: Value

    def __call__(self, flat: Array) -> LogProb:
        """Evaluate the log density."""
        return jnp.asarray(self.log_joint(unraveller(self.like)(flat)), float)


def height_at(density: DensityOfVectors, key: Key, flat: Array) -> LogProb:
    """The log density at a point, as an operation of the engine."""
    return density(flat)


def slope_at(density: DensityOfVectors, key: Key, flat: Array) -> tuple[Array, Array]:
    """Minus the log density at a point, and its gradient."""
    return jax.value_and_grad(lambda x: -density(x))(flat)


def curvature_at(density: DensityOfVectors, key: Key, flat: Array) -> Array:
    """Second derivatives of minus the log density at a point."""
    return jax.hessian(lambda x: -density(x))(flat)


class Optimiser:
    """Climbs a log density of flat states, and measures the curvature at the ends of climbs.

    Programs are kept for the call: a second optimiser of the same density compiles none.

    Args:
        density: The log density, a `FlatDensity` or any function of a vector.
        is_late: Whether the time is up: climbs then stop where they are.
    """

    def __init__(self, density: DensityOfVectors, is_late: Callable[[], bool] = lambda: False):
        self._density, self._is_late = density, is_late
        self._key = jax.random.key(0)  # for operations that draw nothing
        self._programs: dict[Callable[..., Any], PreparedRuns] = {}

    def _at(self, operation: Callable[..., Any], points: np.ndarray) -> Any:
        """Run an operation at every row of `points`."""
        if operation not in self._programs:
            row = (jax.ShapeDtypeStruct(points.shape[1:], np.float64),)
            with compile_quickly():
                self._programs[operation] = PreparedRuns(
                    operation, self._density, self._key, row, what="log_joint"
                )
        return jax.tree.map(np.asarray, self._programs[operation].run_chunk(self._key, (points,)))

    def _heights(self, points: np.ndarray) -> np.ndarray:
        return self._at(height_at, points)

    def _hessian(self, flat: Flat) -> np.ndarray:
        return self._at(curvature_at, flat[None])[0]

    def climb(self, begins: Iterable[Flat], most_steps: int = 1000) -> list[End]:
        """Climb from these points; return the ends, with the log density there.

        Each climb first follows L-BFGS, which goes far, then Newton steps, which are exact.
        """
        ends = list[End]()
        for begin in begins:
            if ends and self._is_late():
                break
            end = self._arrive(self._approach(np.asarray(begin, float), most_steps))
            value, _ = self._objective(end)
            if value < 1e99:
                ends.append((end, -value))
        return ends

    def modes_of(self, ends: list[End], most: int) -> list[Mode]:
        """Different modes among the ends of climbs, highest first, at most `most`.

        Ends with second derivatives that are not finite, or with no width, are left out.
        """
        found, heights = list[Mode](), list[float]()
        for end, height in sorted(ends, key=lambda pair: -pair[1]):
            if len(found) == most or any(mode.holds(end) for mode in found):
                continue
            known = zip(found, heights, strict=True)
            if any(not self._has_barrier((mode.mean, top), (end, height)) for mode, top in known):
                continue
            precision = self._hessian(end)
            if not np.all(np.isfinite(precision)):
                continue
            factor = self._factor(end, height, precision)
            if np.all(np.isfinite(factor)) and np.all(np.diag(factor) > 0):
                mass = height + float(np.sum(np.log(np.diag(factor))))
                found.append(Mode(mass, end, factor))
                heights.append(height)
        return found

    def _approach(self, begin: Flat, most_steps: int) -> Flat:
        from scipy.optimize import minimize

        options = {"maxiter": most_steps}
        with _Watch(self._objective, self._is_late) as watch:
            minimize(watch, begin, jac=True, method="L-BFGS-B", options=options)
        return watch.best(begin)

    def _arrive(self, end: Flat) -> Flat:
        """Make Newton steps in a trust region, in units in which the curvature is about one."""
        from scipy.optimize import minimize

        for _ in range(MOST_ROUNDS):
            value, slope = self._objective(end)
            hessian = self._hessian(end)
            if value > 1e99 or not np.all(np.isfinite(hessian)) or self._is_late():
                break
            axes, scales = _axes(hessian)
            factor = axes * scales
            if np.linalg.norm(slope @ factor) < ARRIVED:
                break
            at = lambda z, end=end, factor=factor: end + factor @ z

            def objective(z: Flat, at: Any = at, factor: np.ndarray = factor) -> tuple[float, Flat]:
                value, slope = self._objective(at(z))
                return value, slope @ factor

            def curvature(z: Flat, at: Any = at, factor: np.ndarray = factor) -> np.ndarray:
                with np.errstate(invalid="ignore", over="ignore"):
                    found = factor.T @ self._hessian(at(z)) @ factor
                return np.where(np.isfinite(found), found, 0.0)

            options = {"gtol": ARRIVED / 2, "maxiter": MOST_NEWTON, "max_trust_radius": 1e9}
            with _Watch(objective, self._is_late) as watch:
                minimize(
                    watch,
                    np.zeros_like(end),
                    jac=True,
                    hess=curvature,
                    method="trust-exact",
                    options=options,
                )
            end = at(watch.best(np.zeros_like(end)))
        return end

    def _has_barrier(self, one: End, other: End) -> bool:
        """Whether the log density falls on the way from one end to the other."""
        shares = np.linspace(0.0, 1.0, NUM_BETWEEN + 2)[1:-1, None]
        heights = self._heights((1 - shares) * one[0] + shares * other[0])
        lowest = np.min(np.where(np.isnan(heights), -np.inf, heights))
        return bool(lowest < min(one[1], other[1]) - BARRIER)

    def _factor(self, end: Flat, height: float, hessian: np.ndarray) -> np.ndarray:
        """Cholesky factor of the stretched Laplace covariance.

        In directions with hardly any curvature the fall of the log density determines the scale.
        """
        axes, scales = _axes(hessian, positive=True)
        for place in np.flatnonzero(scales > WIDEST):
            scales[place] = self._width(end, height, axes[:, place], scales[place])
        sizes = np.linalg.norm(axes * scales, axis=0)
        scales = scales * np.maximum(1, NARROWEST * (1 + np.linalg.norm(end)) / sizes)
        _, upper = np.linalg.qr((axes * (STRETCH * scales)).T)
        return upper.T * np.sign(np.diag(upper))

    def _width(self, end: Flat, height: float, axis: Flat, scale: float) -> float:
        while scale > WIDEST:
            falls = height - self._heights(end + np.array([[-scale], [scale]]) * axis)
            if np.all(falls < STEEP):
                return float(scale) if np.min(falls) > GENTLE else WIDEST
            scale = scale / 2
        return WIDEST

    def _objective(self, flat: Flat) -> tuple[float, Flat]:
        value, slope = (part[0] for part in self._at(slope_at, flat[None]))
        bad = ~np.isfinite(value) | ~np.all(np.isfinite(slope))
        return (1e100, np.zeros_like(flat)) if bad else (float(value), slope)


class _ClimbStopped(Exception):
    """The time is up."""


_SCIPY_FAILED = (np.linalg.LinAlgError, ValueError, UnboundLocalError)
"""Errors of SciPy for matrices that are not finite; the last one if a trust region has found no
step by the end of its rounds."""


class _Watch:
    """A function to minimise that keeps its best point, and stops when the time is up.

    Failures inside SciPy end a climb too.
    """

    def __init__(
        self, objective: Callable[[Flat], tuple[float, Flat]], is_late: Callable[[], bool]
    ):
        self._objective, self._is_late = objective, is_late
        self._least = np.inf
        self._place: Flat | None = None

    def __call__(self, flat: Flat) -> tuple[float, Flat]:
        if self._is_late():
            raise _ClimbStopped
        value, slope = self._objective(flat)
        if value < self._least:
            self._least, self._place = value, np.array(flat)
        return value, slope

    def best(self, begin: Flat) -> Flat:
        """The best point, or the beginning if no point was evaluated."""
        return begin if self._place is None else self._place

    def __enter__(self) -> "_Watch":
        return self

    def __exit__(self, kind: Any, *_: Any) -> bool:
        return kind is not None and issubclass(kind, (_ClimbStopped, *_SCIPY_FAILED))


def join_modes(known: Iterable[Mode], others: Iterable[Mode]) -> tuple[Mode, ...]:
    """All modes of the first list, and those of the second that are not among them."""
    known = tuple(known)
    same = lambda one, other: one.is_rest == other.is_rest and one.holds(other.mean)
    return known + tuple(o for o in others if not any(same(mode, o) for mode in known))


def _axes(hessian: np.ndarray, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    r"""Directions, by columns, and scales: $\sum_k (s_k a_k)(s_k a_k)^\top = |H|^{-1}$.

    Eigenvectors in units of the conditional scales $|H_{jj}|^{-1/2}$, so that units do not matter.
    With `positive`, directions in which the density does not fall count as flat.
    """
    diagonal = np.abs(np.diag(hessian))
    units = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(units * (hessian + hessian.T) / 2 * units[:, None])
    sizes = values if positive else np.abs(values)
    scales = np.where(sizes > FLAT, 1 / np.sqrt(np.maximum(sizes, FLAT)), WIDEST)
    return units[:, None] * vectors, scales
