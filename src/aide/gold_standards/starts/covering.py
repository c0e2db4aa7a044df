r"""A start that covers what pilots found, with heavy tails, and a share of the start they had.

From a start with lighter tails than the posterior a path opens up only at its very end, for outputs
that its own runs hardly make. In the coordinates in which kernels move, a $t$ distribution about
the pilots covers them, or one about each of several modes; the share of the first start covers what
pilots may have missed.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.flat_states import flat_reals
from aide._core.numerics import as_parameter
from aide._core.random import derive_keys
from aide._core.types import Key, LogProb, Numbers, Parameter, Value
from aide.gold_standards.pilots.pilot import Pilot, moved
from aide.gold_standards.pilots.population import Frame, moments_of, unraveller
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.modes import mixture_of
from aide.gold_standards.starts.student import draw_student, inverses_of, log_student_mixture
from aide.kernels.coordinates import ScaledCoordinates

SHARE = 0.1
"""Of the first start."""


class Covering(eqx.Module):
    r"""$0.1\,k_1(x) + 0.9\sum_k w_k\,t_4(z(x); m_k, L_k L_k^\top)\,|\partial z/\partial x|$.

    Args:
        start: $k_1$.
        weights: $w_k$.
        means: $m_k$, by rows.
        factors: $L_k$, lower triangular.
        coordinates: $z(x)$; `None`: $x$ itself, flat.
    """

    start: Distribution
    weights: Parameter = eqx.field(converter=as_parameter)
    means: Parameter = eqx.field(converter=as_parameter)
    factors: Parameter = eqx.field(converter=as_parameter)
    inverses: Parameter
    coordinates: ScaledCoordinates | None = None

    def __init__(
        self,
        start: Distribution,
        weights: Numbers,
        means: Numbers,
        factors: Numbers,
        coordinates: ScaledCoordinates | None = None,
    ):
        self.start, self.coordinates = start, coordinates
        self.weights, self.means, self.factors = map(as_parameter, (weights, means, factors))
        self.inverses = inverses_of(self.factors)

    def sample(self, key: Key) -> Value:
        """Of the start, or of one of the others."""
        one, two, three = derive_keys(key, 3)
        first, place = sample_from(self.start, one), jax.random.uniform(three)
        flat = flat_reals(first)
        ends = SHARE + (1 - SHARE) * jnp.cumsum(jnp.asarray(self.weights))
        component = jnp.sum(place >= ends[:-1])
        means, factors = jnp.asarray(self.means), jnp.asarray(self.factors)
        component = 0 if len(means) == 1 else component  # no copy of a matrix for every run
        mean, factor = means[component], factors[component]
        z = mean + factor @ draw_student(two, flat.size)
        second = z if self.coordinates is None else self.coordinates.back(z)
        return unraveller(first)(jnp.where(place < SHARE, flat, second))

    def log_density(self, x: Value) -> LogProb:
        """Of the mixture; a part of it counts as zero where overflow leaves no number."""
        first = log_density_of(self.start, x)
        first, tails = map(_zero_without_value, (first, self._log_tails(x)))
        return jnp.logaddexp(np.log(SHARE) + first, np.log1p(-SHARE) + tails)

    def _log_tails(self, x: Value) -> Array:
        z, volume = flat_reals(x), 0.0
        if self.coordinates is not None:
            z = self.coordinates.away(z)
            volume = self.coordinates.log_volume(z)
        return log_student_mixture(z, self.weights, self.means, self.inverses) - volume


def _zero_without_value(log_density: LogProb) -> Array:
    return jnp.where(jnp.isnan(log_density), -jnp.inf, log_density)


def cover_modes(start: Distribution, modes: Sequence[Mode]) -> Covering:
    """About each of several modes."""
    return Covering(start, *mixture_of(modes))


def cover(start: Distribution, pilot: Pilot) -> Covering:
    """About the pilots where they ended."""
    flat, coordinates = pilot.population.flat, pilot.stages[-1].frame.coordinates
    weights = np.full(len(flat), 1 / len(flat))
    frame = Frame(moments_of(moved(flat, coordinates), weights), coordinates)
    mean, factor = frame.moments.mean[None], frame.factor(dense=True)[None]
    return Covering(start, np.ones(1), mean, factor, coordinates)
