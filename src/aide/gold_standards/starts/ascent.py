r"""Many climbs at a time: steps along the gradient, of Barzilai and Borwein's length (1988).

With $s$ the last move and $y$ the last change of the gradient, the next step is $|s^2/s\cdot y|$
times the gradient: in a Gaussian of one width the second step arrives. Moves that lead down are
taken back.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.types import Key, Parameter, Value
from aide.gold_standards.pilots.population import Path, start_particle
from aide.gold_standards.starts.climbing import FlatDensity

NUM_STEPS = 60
FIRST_MOVE = 0.1
"""Length of the first move, per coordinate, in units of the spread; none is ten times as long."""


class Ascent(eqx.Module):
    """A log density in coordinates in which the spread of some population is one.

    Args:
        path: Its end is climbed; draws of its start are where climbs set out.
        mean: Of the population, flat.
        factor: Of its covariance.
        like: A state.
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
        """Where a climb ends, and the log density there."""
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
    """One climb from a given point, as an operation of the engine."""
    return ascent.climb(flat)


def climb_from_start(ascent: Ascent, key: Key, run: int) -> tuple[Array, Array]:
    """One climb from a draw of the start."""
    _, flat, _ = start_particle(ascent.path, key, run)
    return ascent.climb(flat)
