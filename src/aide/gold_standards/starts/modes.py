r"""A start where none is given: heavy tails about the modes that optimisers find."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.flat_states import flat_reals
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide.engine.programs.map_runs import in_double
from aide.gold_standards.budget import Budget
from aide.gold_standards.pilots.population import unraveller
from aide.gold_standards.starts.climbing import End, FlatDensity, Mode, Optimiser
from aide.gold_standards.starts.student import draw_student, inverses_of, log_student_mixture

NUM_POINTS, SCATTER = 32, (0.1, 1.0, 3.0, 10.0)
"""Points from which optimisers set out, and how far from the given one they lie."""
CLIMB_TIME = 0.1
"""Of the seconds of a budget, for all climbs."""
MOST_MODES, LOWEST = 12, 20.0
"""Modes that are kept: so many, and those with a Laplace mass within so many nats of the best."""


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
    inverses: Array | np.ndarray
    like: Value

    def __init__(
        self,
        weights: Array | np.ndarray,
        means: Array | np.ndarray,
        factors: Array | np.ndarray,
        like: Value,
    ):
        self.weights, self.means, self.factors, self.like = weights, means, factors, like
        self.inverses = inverses_of(factors)

    def sample(self, key: Key) -> Value:
        """A component, a normal vector, and its scale."""
        one, two = derive_keys(key, 2)
        place = jax.random.choice(one, len(self.weights), p=jnp.asarray(self.weights))
        noise = draw_student(two, self.means.shape[1])
        flat = jnp.asarray(self.means)[place] + jnp.asarray(self.factors)[place] @ noise
        return unraveller(self.like)(flat)

    def log_density(self, x: Value) -> LogProb:
        """The mixture's log density."""
        return log_student_mixture(flat_reals(x), self.weights, self.means, self.inverses)


def fit_start(
    key: Key,
    log_joint: LogDensity,
    point: Value,
    budget: Budget | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> StudentMixture:
    """Optimise from scattered points, keep different modes, put heavy tails about each.

    Args:
        key: A JAX key.
        log_joint: The log density, with a gradient.
        point: A state of the right structure, about which the points are scattered.
        budget: Its seconds are kept: climbs stop when a tenth is spent, after one at least.
        report: Hears of every climb that has ended.
    """
    budget = budget or Budget()
    centre = np.asarray(in_double(flat_reals, point), np.float64)
    like = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), point)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    scales = [0.0, *(SCATTER[number % len(SCATTER)] for number in range(1, NUM_POINTS))]
    optimiser = Optimiser(FlatDensity(log_joint, like), lambda: budget.is_late(CLIMB_TIME))
    ends = list[End]()
    for number, scale in enumerate(scales):
        if ends and budget.is_late(CLIMB_TIME):
            report(len(scales) - number)
            break
        ends += optimiser.climb([centre + scale * rng.normal(size=centre.size)])
        report(1)
    if not ends:
        raise ValueError(
            f"no optimiser that set out from {NUM_POINTS} points about the given one found a point "
            "with a finite log density: pass start=, a distribution that covers the posterior."
        )
    modes = optimiser.modes_of(ends, MOST_MODES)
    if not modes:
        raise ValueError(
            "the second derivatives of log_joint are infinite or nan at every mode that optimisers "
            "found: pass start=, a distribution that covers the posterior."
        )
    return StudentMixture(*mixture_of(modes), like)


def mixture_of(modes: Sequence[Mode]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and factors: a fifth for all alike, the rest by the mass about each mode."""
    masses = np.array([mode.log_mass for mode in modes])
    kept = masses > masses.max() - LOWEST
    shares = np.exp(masses - masses.max())[kept]
    weights = 0.8 * shares / shares.sum() + 0.2 / len(shares)
    means, factors = np.array([m.mean for m in modes]), np.array([m.factor for m in modes])
    return weights, means[kept], factors[kept]
