r"""A population of pilots at one temperature: its spread, and how far the next one may be."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.types import Value
from aide.kernels.coordinates import ScaledCoordinates

CLOSE_ENOUGH = 1e-3
"""Relative precision of a temperature."""
ROUNDING = 1e-12
"""A spread of this share of the mean is none."""


class Population(NamedTuple):
    r"""Particles with equal weights: states, their flat forms, and $h$ at each."""

    states: Value
    flat: Float[np.ndarray, "n d"]
    log_ratios: Float[np.ndarray, " n"]

    @property
    def num(self) -> int:
        """How many."""
        return len(self.log_ratios)

    def take(self, index: np.ndarray) -> "Population":
        """Some of them, perhaps several times."""
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
        $(1 + \sqrt{d/n})^2/(1 - \sqrt{d/n})^2$, however large its own is. Where $n$ is below $4d$
        correlations are shrunk. A coordinate that does not vary counts as one of scale 1.
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
    """Coordinates for a kernel, `None` for those of the state, and the spread in them."""

    moments: PopulationMoments
    coordinates: ScaledCoordinates | None = None

    def factor(self, dense: bool) -> np.ndarray:
        """The factor of the metric."""
        return self.moments.factor(dense)


def effective_share(log_weights: np.ndarray) -> float:
    r"""$(\sum w)^2 / (n \sum w^2)$."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.mean() ** 2 / np.mean(weights**2))


def next_temperature(population: Population, temperature: float, share: float) -> float:
    r"""The largest step that leaves an effective share of the weights $e^{(\beta'-\beta)h}$.

    States outside the support ($h = -\infty$) are lost by every step, however small, and count no
    more than that.
    """
    ratios = population.log_ratios[np.isfinite(population.log_ratios)]
    left = lambda step: effective_share(step * ratios)
    whole = 1.0 - temperature
    if left(whole) >= share:
        return 1.0
    small, large = 0.0, whole
    while large - small > CLOSE_ENOUGH * large:
        # In logarithms while the order of magnitude is unknown: a step may be 1e-9.
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
    """Weighted mean and covariance; states without a weight count nothing, infinite ones too."""
    flat = np.where(weights[:, None] > 0, flat, 0.0)
    mean = weights @ flat
    centred = flat - mean
    return PopulationMoments(
        mean, centred.T @ (centred * weights[:, None]), 1 / float(np.sum(weights**2))
    )


def resample(rng: np.random.Generator, population: Population, weights: np.ndarray) -> Population:
    """Systematic resampling."""
    points = (rng.random() + np.arange(population.num)) / population.num
    index = np.searchsorted(np.cumsum(weights), points)
    return population.take(np.minimum(index, population.num - 1))
