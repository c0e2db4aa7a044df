r"""Many climbs at once: steps along the gradient, of Barzilai and Borwein's length (1988).

With $s$ the last move and $y$ the last change of the gradient, the next step is $|s^2/s\cdot y|$
times the gradient: in a Gaussian with one width the second step ends at the mode. Moves that lead
down are taken back.

Screening chooses the beginnings of climbs among many draws of a start. A peak of width $s$ beside a
wide mode attracts climbs only from a region of a few $s$ about it, where a few hundred climbs may
not begin; a peak within the reach of the wide mode differs from it by its height only. A single
evaluation shows the peak wherever it rises above the rest, at a hundredth of the cost of a climb.
So the log density of many draws is compared with $\log\sum_k m_k\,t_k(x)$, the masses and shapes of
the known modes; further climbs begin where the density exceeds that sum by most.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, Parameter, Value
from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.population import Path, start_particle
from aide.gold_standards.starts.climbing import FlatDensity, Mode
from aide.gold_standards.starts.tails import inverses_of, log_student_mixture

NUM_STEPS = 60
"""Number of steps of every climb: a choice."""
FIRST_MOVE = 0.1
"""Length of the first move per coordinate, in units of the spread; the longest move is ten times as
long: a choice."""


class Ascent(eqx.Module):
    """A log density in coordinates in which a population has covariance 1.

    Args:
        path: A path; climbs go up its end, from draws of its start.
        mean: Mean of the population, flat.
        factor: Cholesky factor of the population's covariance.
        like: A state of the right structure.
    """

    path: Path
    mean: Parameter
    factor: Parameter
    like: Value

    @property
    def density(self) -> FlatDensity:
        """The log density at the end of the path."""
        return FlatDensity(self.path.log_joint, self.like)

    def climb(self, flat: Array) -> tuple[Array, Array]:
        """The end of a climb, and the log density there."""
        mean, factor = jnp.asarray(self.mean), jnp.asarray(self.factor)
        most = 10 * FIRST_MOVE * np.sqrt(mean.size)
        density = self.density
        value = lambda white: density(mean + factor @ white)

        def step(_: int, now: _Place) -> _Place:
            move = now.size * now.slope
            move = move * jnp.minimum(1.0, most / jnp.maximum(jnp.linalg.norm(move), 1e-300))
            white = now.white + move
            height, slope = jax.value_and_grad(value)(white)
            up = (height >= now.height) & jnp.all(jnp.isfinite(slope))
            curvature = jnp.dot(move, now.slope - slope)
            longer = jnp.where(curvature > 0, jnp.dot(move, move) / curvature, 2 * now.size)
            there = _Place(white, height, slope, longer)
            back = now._replace(size=now.size / 4)
            return jax.tree.map(lambda a, b: jnp.where(up, a, b), there, back)

        white = jax.scipy.linalg.solve_triangular(factor, flat - mean, lower=True)
        height, slope = jax.value_and_grad(value)(white)
        first = most / 10 / jnp.maximum(jnp.linalg.norm(slope), 1e-300)
        end = jax.lax.fori_loop(0, NUM_STEPS, step, _Place(white, height, slope, first))
        return mean + factor @ end.white, end.height


class _Place(NamedTuple):
    white: Array
    height: Array
    slope: Array
    size: Array


def climb_from(ascent: Ascent, key: Key, flat: Array) -> tuple[Array, Array]:
    """Climb from a given point, as an operation of the engine."""
    return ascent.climb(flat)


def climb_from_start(ascent: Ascent, key: Key, run: int) -> tuple[Array, Array]:
    """Climb from a draw of the start, as an operation of the engine."""
    _, flat, _ = start_particle(ascent.path, key, run)
    return ascent.climb(flat)


UNEXPLAINED = 4.0
"""Nats above the known modes from which a draw may be at an unknown mode: a choice. In a normal
distribution the excess is 1 to 3 nats, since $t$ distributions about modes are wider."""


class Screen(eqx.Module):
    """A log density, and the modes that should explain it.

    Args:
        ascent: The log density, and the start of the draws.
        log_masses: Log masses of the modes.
        means: Places of the modes, by rows.
        inverses: Inverses of the factors of the modes.
    """

    ascent: Ascent
    log_masses: Parameter
    means: Parameter
    inverses: Parameter

    @staticmethod
    def of(ascent: Ascent, weighed: Sequence[Mode]) -> "Screen":
        """A screen for modes with masses in the units of the density."""
        columns = zip(*(mode[:3] for mode in weighed), strict=True)
        masses, means, factors = (np.array(column) for column in columns)
        return Screen(ascent, masses, means, inverses_of(factors))

    def explained(self, flat: Array) -> Array:
        r"""$\log\sum_k m_k\,t_k(x)$."""
        top = jnp.max(jnp.asarray(self.log_masses))
        masses = jnp.exp(self.log_masses - top)
        return top + log_student_mixture(flat, masses, self.means, self.inverses)

    def worst_runs(self, key: Key, num: int, most: int) -> np.ndarray:
        """Runs whose draws of the start the modes do not explain, the worst first.

        Of runs 0 to `num - 1`, at most `most`; `climb_from_start` climbs from the same draws if the
        key is the same.
        """
        runs = np.arange(num, dtype=np.uint32)
        residuals = map_runs(residual_at_start, self, key, (runs,), what="log_joint")
        worst = np.argsort(-residuals, kind="stable")[:most]
        return runs[worst[residuals[worst] > UNEXPLAINED]]

    def are_unexplained(self, flat: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Whether the log density at points is higher than the modes explain."""
        if not len(flat):
            return np.zeros(0, bool)
        key = jax.random.key(0)  # nothing is drawn
        return heights > map_runs(explained_at, self, key, (flat,), what="") + UNEXPLAINED


def explained_at(screen: Screen, key: Key, flat: Array) -> Array:
    """The log density that modes explain at a point, as an operation of the engine."""
    return screen.explained(flat)


def residual_at_start(screen: Screen, key: Key, run: int) -> Array:
    r"""$\log\gamma(x) - \log\sum_k m_k\,t_k(x)$ at a draw of the start; $-\infty$ for no number."""
    _, flat, _ = start_particle(screen.ascent.path, key, run)
    residual = screen.ascent.density(flat) - screen.explained(flat)
    return jnp.where(jnp.isfinite(residual), residual, -jnp.inf)
