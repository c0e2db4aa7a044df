"""A population of pilots on its path from a start to the posterior, at one temperature."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from aide._core.algorithm import Aside
from aide._core.distribution import Distribution, LogDensityOf, evaluate, sample_from
from aide._core.numerics import as_parameter, flat_reals, log_ratio
from aide._core.types import Key, LogDensity, LogProb, Parameter, Value
from aide.algorithms.annealed import Tempered
from aide.kernels.coordinates import ScaledCoordinates


class Path(eqx.Module):
    r"""The densities $\gamma_\beta$ between a start $k_1$ and $\gamma$, at one temperature.

    Args:
        start: $k_1$.
        log_joint: $\log\gamma$.
        temperature: $\beta$.
        names: Names of the coordinates, for messages; `None` names them by their places.
    """

    start: Distribution
    log_joint: LogDensity
    temperature: Parameter = eqx.field(converter=as_parameter, default=0.0)
    names: Aside = Aside(None)

    def at(self, temperature: float) -> "Path":
        """The same path at another temperature."""
        return Path(self.start, self.log_joint, temperature, self.names)

    @property
    def log_density(self) -> Tempered:
        r"""$\log\gamma_\beta$."""
        return Tempered(LogDensityOf(self.start), self.log_joint, self.temperature)

    def log_ratio(self, x: Value) -> LogProb:
        r"""$h(x) = \log\gamma(x) - \log k_1(x)$, the logarithm of the weights of tempering."""
        return self.log_ratio_and_lost(x)[0]

    def log_ratio_and_lost(self, x: Value) -> tuple[LogProb, Bool[Array, ""]]:
        r"""$h(x)$, and whether $\log\gamma(x)$ is NaN or $+\infty$ as it was written."""
        end, lost = evaluate(self.log_joint, x)
        return log_ratio(end, LogDensityOf(self.start)(x)), lost


def start_particle(path: Path, key: Key, run: int) -> tuple[Value, Array, LogProb]:
    """Draw one particle at temperature 0, as an operation of the engine."""
    return start_watched(path, key, run)[:3]


def start_watched(path: Path, key: Key, run: int) -> tuple[Value, Array, LogProb, Bool[Array, ""]]:
    """Draw one particle, and tell whether the log density has no value there."""
    x = sample_from(path.start, jax.random.fold_in(key, run))
    x = jax.tree.map(jnp.asarray, x)
    return x, flat_reals(x), *path.log_ratio_and_lost(x)


def unraveller(x: Value) -> Callable[[Array], Value]:
    """A function from the flat form of a real-valued state back to its structure."""
    leaves, tree = jax.tree.flatten(x)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def unravel(flat: Array) -> Value:
        parts = jnp.split(flat, ends)
        return jax.tree.unflatten(tree, [p.reshape(s) for p, s in zip(parts, shapes, strict=True)])

    return unravel


CLOSE_ENOUGH = 1e-3
"""Relative precision to which a step of temperature is found: a choice."""
ROUNDING = 1e-12
"""Standard deviation relative to the mean up to which a coordinate counts as constant: a choice."""


class Population(NamedTuple):
    r"""Particles with equal weights: states, their flat forms, and $h$ at each."""

    states: Value
    flat: Float[np.ndarray, "n d"]
    log_ratios: Float[np.ndarray, " n"]

    @property
    def num(self) -> int:
        """The number of particles."""
        return len(self.log_ratios)

    def take(self, index: np.ndarray) -> "Population":
        """The particles of an index, which may hold a particle several times."""
        states = jax.tree.map(lambda leaf: np.asarray(leaf)[index], self.states)
        return Population(states, self.flat[index], self.log_ratios[index])


class PopulationMoments(NamedTuple):
    """Mean and covariance of a population, and the effective number of particles behind them."""

    mean: Float[np.ndarray, " d"]
    covariance: Float[np.ndarray, "d d"]
    num: float

    def factor(self, dense: bool) -> np.ndarray:
        r"""$L$ with $L L^\top$ the covariance, or its diagonal alone.

        In the coordinates $L^{-1}x$ a Gaussian has a condition number of about
        $(1 + \sqrt{d/n})^2/(1 - \sqrt{d/n})^2$, however large its own is. If $n$ is below $4d$,
        correlations are shrunk. A coordinate that does not vary is given the scale 1.
        """
        variances = np.diag(self.covariance).copy()
        variances[~(variances > (ROUNDING * self.mean) ** 2)] = 1.0
        if not dense:
            return np.sqrt(variances)
        share = float(np.clip(len(variances) / self.num - 0.25, 1e-6, 1.0))
        scales = np.sqrt(variances)
        correlation = (1 - share) * self.covariance / np.outer(scales, scales)
        np.fill_diagonal(correlation, 1.0)
        return scales[:, None] * np.linalg.cholesky(correlation)


class Frame(NamedTuple):
    """Coordinates for a kernel (`None`: those of the state) and the spread in these coordinates."""

    moments: PopulationMoments
    coordinates: ScaledCoordinates | None = None

    def factor(self, dense: bool) -> np.ndarray:
        """The factor of the metric."""
        return self.moments.factor(dense)


def effective_share(log_weights: np.ndarray) -> float:
    r"""The effective share of the weights, $(\sum w)^2 / (n \sum w^2)$."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.mean() ** 2 / np.mean(weights**2))


def next_temperature(population: Population, temperature: float, share: float) -> float:
    r"""The largest step whose weights $e^{(\beta'-\beta)h}$ have the given effective share.

    States outside the support ($h = -\infty$) are lost in every step, however small, and are left
    out of the share.
    """
    ratios = population.log_ratios[np.isfinite(population.log_ratios)]
    left = lambda step: effective_share(step * ratios)
    whole = 1.0 - temperature
    if left(whole) >= share:
        return 1.0
    small, large = 0.0, whole
    while large - small > CLOSE_ENOUGH * large:
        # The middle is geometric while the order of magnitude is unknown: a step may be 1e-9.
        middle = (
            0.5 * (small + large)
            if small > 0.1 * large
            else max(np.sqrt(small * large), 0.01 * large)
        )
        small, large = (middle, large) if left(middle) >= share else (small, middle)
        if large < 1e-300:
            break
    return temperature + large


def weigh(population: Population, step: float) -> np.ndarray:
    r"""Normalised weights $\propto e^{(\beta'-\beta)h}$."""
    log_weights = step * population.log_ratios
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def moments_of(flat: Float[np.ndarray, "n d"], weights: np.ndarray) -> PopulationMoments:
    """Weighted mean and covariance; states of weight 0 are left out, infinite ones too."""
    flat = np.where(weights[:, None] > 0, flat, 0.0)
    mean = weights @ flat
    centred = flat - mean
    return PopulationMoments(
        mean, centred.T @ (centred * weights[:, None]), 1 / float(np.sum(weights**2))
    )


def resample(rng: np.random.Generator, population: Population, weights: np.ndarray) -> Population:
    """Resample particles by the systematic scheme."""
    points = (rng.random() + np.arange(population.num)) / population.num
    index = np.searchsorted(np.cumsum(weights), points)
    return population.take(np.minimum(index, population.num - 1))
