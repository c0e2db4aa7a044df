r"""A start where none is given: heavy tails about the modes that optimisers find."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.numerics import flat_reals
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide.gold_standards.path import unraveller
from aide.gold_standards.student import draw_student, log_student
from aide.running.map_runs import in_double

NUM_POINTS, SCATTER = 32, (0.1, 1.0, 3.0, 10.0)
"""Points from which optimisers set out, and how far from the given one they lie."""
MOST_MODES, LOWEST = 12, 20.0
"""Modes that are kept: so many, and those with a Laplace mass within so many nats of the best."""
STRETCH = 1.5
"""The scale relative to that of the Laplace approximation."""
WIDEST, NARROWEST = 30.0, 1e-6
"""Largest scale, where the density is flat; smallest, relative to the largest."""


class StudentMixture(eqx.Module):
    r"""$\sum_k w_k\,t_\nu(x; m_k, L_k L_k^\top)$ over a state in the structure of `like`.

    Args:
        weights: $w_k$.
        means: $m_k$, flat.
        factors: $L_k$, lower triangular.
        like: A state of the right structure.
    """

    weights: Array | np.ndarray
    means: Array | np.ndarray
    factors: Array | np.ndarray
    like: Value

    def sample(self, key: Key) -> Value:
        """A component, a normal vector, and its scale."""
        one, two = derive_keys(key, 2)
        place = jax.random.choice(one, len(self.weights), p=jnp.asarray(self.weights))
        noise = draw_student(two, self.means.shape[1])
        flat = jnp.asarray(self.means)[place] + jnp.asarray(self.factors)[place] @ noise
        return unraveller(self.like)(flat)

    def log_density(self, x: Value) -> LogProb:
        """The mixture's log density."""
        means, factors = jnp.asarray(self.means), jnp.asarray(self.factors)
        parts = jax.vmap(log_student, (None, 0, 0))(flat_reals(x), means, factors)
        return jax.nn.logsumexp(jnp.log(jnp.asarray(self.weights)) + parts)


def fit_start(key: Key, log_joint: LogDensity, point: Value) -> StudentMixture:
    """Optimise from scattered points, keep different modes, put heavy tails about each.

    Args:
        key: A JAX key.
        log_joint: The log density, with a gradient.
        point: A state of the right structure, about which the points are scattered.
    """
    return in_double(_fit, key, log_joint, point)


def _fit(key: Key, log_joint: LogDensity, point: Value) -> StudentMixture:
    centre, unravel = np.asarray(flat_reals(point)), unraveller(point)
    log_density = lambda flat: jnp.asarray(log_joint(unravel(flat)), float)
    value_and_slope = jax.jit(jax.value_and_grad(lambda flat: -log_density(flat)))
    ends = _climb(key, value_and_slope, centre)
    if not ends:
        raise ValueError(
            f"no optimiser that set out from {NUM_POINTS} points about the given one found a point "
            "with a finite log density: pass start=, a distribution that covers the posterior."
        )
    hessian = jax.jit(jax.hessian(log_density))
    found = list[tuple[float, np.ndarray, np.ndarray]]()
    for end, height in sorted(ends, key=lambda pair: -pair[1]):
        known = (np.linalg.solve(f / STRETCH, end - m) for _, m, f in found)
        if len(found) == MOST_MODES or any(np.sum(w**2) < 0.1 * w.size for w in known):
            continue
        precision = -np.asarray(hessian(end))
        if not np.all(np.isfinite(precision)):
            continue
        factor = _factor(precision)
        found.append((height + float(np.sum(np.log(np.diag(factor)))), end, factor))
    if not found:
        raise ValueError(
            "the second derivatives of log_joint are infinite or nan at every mode that optimisers "
            "found: pass start=, a distribution that covers the posterior."
        )
    masses = np.array([mass for mass, _, _ in found])
    kept = masses > masses.max() - LOWEST
    shares = np.exp(masses - masses.max())[kept]
    weights = 0.8 * shares / shares.sum() + 0.2 / len(shares)
    means, factors = (np.array([one[part] for one in found])[kept] for part in (1, 2))
    like = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), point)
    return StudentMixture(weights, means, factors, like)


def _climb(
    key: Key, value_and_slope: Callable[[Array], tuple[Array, Array]], centre: np.ndarray
) -> list[tuple[np.ndarray, float]]:
    """Where optimisers end, with the log density there."""
    from scipy.optimize import minimize

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        found = value_and_slope(jnp.asarray(flat))
        value, slope = (np.asarray(part, np.float64) for part in found)
        bad = ~np.isfinite(value) | ~np.all(np.isfinite(slope))
        return (1e100, np.zeros_like(flat)) if bad else (float(value), slope)

    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    ends = []
    for number in range(NUM_POINTS):
        scale = 0.0 if number == 0 else SCATTER[number % len(SCATTER)]
        begin = centre + scale * rng.normal(size=centre.size)
        end = minimize(objective, begin, jac=True, method="L-BFGS-B")
        if np.isfinite(end.fun) and end.fun < 1e99:
            ends.append((end.x, -float(end.fun)))
    return ends


def _factor(precision: np.ndarray) -> np.ndarray:
    """Cholesky factor of the stretched inverse; directions without curvature get `WIDEST`.

    Where optimisers ran up a spike without end, its width is cut off at what rounding can tell.
    """
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    scales = 1 / np.sqrt(np.maximum(values, WIDEST**-2))
    scales = np.maximum(scales, NARROWEST * scales.max())
    return np.linalg.cholesky((vectors * (STRETCH * scales) ** 2) @ vectors.T)
