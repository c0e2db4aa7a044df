"""Starts with heavy tails: about modes that optimisers find, or covering what pilots found.

From a start with lighter tails than the posterior, a path opens up only at its very end, for
outputs that its own runs hardly make. In the coordinates in which kernels move, one $t$
distribution about the pilots covers them, or one about each of several modes; the share of the
first start covers what pilots may have missed.
"""

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.distribution import Distribution, log_density_of, sample_from
from aide._core.numerics import as_parameter, flat_reals
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Numbers, Parameter, Value
from aide.engine.programs.map_runs import in_double
from aide.gold_standards.budget import CLIMBS_STOP, Budget
from aide.gold_standards.pilots.pilot import PilotedPath, moved
from aide.gold_standards.pilots.population import Frame, moments_of, unraveller
from aide.gold_standards.starts.climbing import End, FlatDensity, Mode, Optimiser
from aide.kernels.coordinates import ScaledCoordinates

FREEDOM = 4.0
r"""Degrees of freedom $\nu$: a choice, even so that half of it is a whole number."""


def draw_student(key: Key, num: int) -> Array:
    r"""A draw of $t_\nu(0, I)$ in `num` dimensions.

    $\chi^2_\nu/2$ is a sum of $\nu/2 = 2$ exponentials: `jax.random.gamma` would put several loops
    into every program that draws from the start.
    """
    one, two = derive_keys(key, 2)
    half_chi_square = jnp.sum(jax.random.exponential(one, (int(FREEDOM / 2),)))
    scale = jnp.sqrt(FREEDOM / (2 * half_chi_square))
    return scale * jax.random.normal(two, (num,))


def inverses_of(factors: Parameter) -> np.ndarray:
    r"""$L_k^{-1}$ of lower triangular matrices $L_k$.

    Computed once: products with inverses are compiled sooner and run faster than solving, in every
    density of a path, for every state.
    """
    return np.tril(np.linalg.inv(np.asarray(factors, np.float64)))


def log_student(x: Array, mean: Array, inverse: Array) -> LogProb:
    r"""$\log t_\nu(x; m, L L^\top)$ with $L$ lower triangular, given $L^{-1}$."""
    num = x.shape[-1]
    white = inverse @ (x - mean)
    constant = math.lgamma((FREEDOM + num) / 2) - math.lgamma(FREEDOM / 2)
    constant -= 0.5 * num * math.log(FREEDOM * math.pi)
    tail = -0.5 * (FREEDOM + num) * jnp.log1p(jnp.sum(white**2) / FREEDOM)
    return constant + tail + jnp.sum(jnp.log(jnp.diagonal(inverse)))


def log_student_mixture(
    x: Array, weights: Parameter, means: Parameter, inverses: Parameter
) -> LogProb:
    r"""$\log\sum_k w_k\,t_\nu(x; m_k, L_k L_k^\top)$, given $L_k^{-1}$."""
    logs, means, inverses = (jnp.asarray(part) for part in (jnp.log(weights), means, inverses))
    if len(means) == 1:
        return logs[0] + log_student(x, means[0], inverses[0])
    return jax.nn.logsumexp(logs + jax.vmap(log_student, (None, 0, 0))(x, means, inverses))


NUM_POINTS = 32
"""Number of points from which optimisers climb: a choice."""
SCATTER = (0.1, 1.0, 3.0, 10.0)
"""Standard deviations of the points about the given one, in turn: a choice."""
MOST_MODES = 12
"""Largest number of modes that are kept: a choice."""
LOWEST = 20.0
"""Largest difference in Laplace log mass, in nats, of a kept mode to the best: a choice."""


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
        """Draw from a component that is chosen by weight."""
        one, two = derive_keys(key, 2)
        place = jax.random.choice(one, len(self.weights), p=jnp.asarray(self.weights))
        noise = draw_student(two, self.means.shape[1])
        flat = jnp.asarray(self.means)[place] + jnp.asarray(self.factors)[place] @ noise
        return unraveller(self.like)(flat)

    def log_density(self, x: Value) -> LogProb:
        """The log density of the mixture."""
        return log_student_mixture(flat_reals(x), self.weights, self.means, self.inverses)


def fit_start(
    key: Key,
    log_joint: LogDensity,
    point: Value,
    budget: Budget | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> StudentMixture:
    """Climb from scattered points, keep different modes, and put heavy tails about each.

    Args:
        key: A JAX key.
        log_joint: The log density, with a gradient.
        point: A state of the right structure, about which the points are scattered.
        budget: Limits the seconds: climbs stop after a tenth of them, but not before one climb.
        report: Called with the number of climbs that have ended since the last call.
    """
    budget = budget or Budget()
    centre = np.asarray(in_double(flat_reals, point), np.float64)
    like = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), point)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    scales = [0.0, *(SCATTER[number % len(SCATTER)] for number in range(1, NUM_POINTS))]
    optimiser = Optimiser(FlatDensity(log_joint, like), lambda: budget.is_late(CLIMBS_STOP))
    ends = list[End]()
    for number, scale in enumerate(scales):
        if ends and budget.is_late(CLIMBS_STOP):
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
    """Weights, means and factors: a fifth in equal parts, the rest by the mass of each mode."""
    masses = np.array([mode.log_mass for mode in modes])
    kept = masses > masses.max() - LOWEST
    shares = np.exp(masses - masses.max())[kept]
    weights = 0.8 * shares / shares.sum() + 0.2 / len(shares)
    means, factors = np.array([m.mean for m in modes]), np.array([m.factor for m in modes])
    return weights, means[kept], factors[kept]


SHARE = 0.1
"""Weight of the first start: a choice."""


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
        """Draw from the first start or from one of the components."""
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
        """The log density of the mixture; a part that overflow leaves without a number is zero."""
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
    """A start with one component about each of several modes."""
    return Covering(start, *mixture_of(modes))


def cover(start: Distribution, pilot: PilotedPath) -> Covering:
    """A start with one component about the final pilots."""
    flat, coordinates = pilot.population.flat, pilot.stages[-1].frame.coordinates
    weights = np.full(len(flat), 1 / len(flat))
    frame = Frame(moments_of(moved(flat, coordinates), weights), coordinates)
    mean, factor = frame.moments.mean[None], frame.factor(dense=True)[None]
    return Covering(start, np.ones(1), mean, factor, coordinates)
