"""Right and tempered draws for the score check of reference draws: heavy tails, an edge, AR(1)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import signal

from aide.algorithms.score_check import Moves

CORRELATION = 0.9
"""Correlation of neighbours in an AR(1) chain, which is worth a nineteenth of its draws."""


class ScoreLaw(NamedTuple):
    """Draws of one coordinate and its log density; `sample` takes a generator and a shape."""

    sample: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    log_density: Callable[[np.ndarray], np.ndarray]


def log_gamma(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The log of Gamma(0.1), without underflow: log Gamma(1.1) + log(u)/0.1."""
    return np.log(rng.gamma(1.1, size=shape)) + np.log(rng.random(shape)) / 0.1


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A stationary AR(1) chain along the first axis, with standard normal draws."""
    noise = rng.normal(size=shape) * np.sqrt(1.0 - CORRELATION**2)
    noise[0] /= np.sqrt(1.0 - CORRELATION**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -CORRELATION], noise, axis=0))


LAWS = {
    "log-Gamma(0.1)": ScoreLaw(log_gamma, lambda x: 0.1 * x - np.exp(x)),
    "normal": ScoreLaw(lambda rng, shape: rng.normal(size=shape), lambda x: -0.5 * x**2),
    "Cauchy": ScoreLaw(lambda rng, shape: rng.standard_cauchy(shape), lambda x: -np.log1p(x**2)),
    "exponential": ScoreLaw(
        lambda rng, shape: rng.exponential(size=shape),
        lambda x: np.where(x > 0, -x, -np.inf),
    ),
    "AR(1) chain": ScoreLaw(autoregressive, lambda x: -0.5 * x**2),
}


def moves_of(x: np.ndarray, log_density: Callable[[np.ndarray], np.ndarray]) -> Moves:
    """Moves by two standard deviations of independent coordinates: one chain of [draw, ...]."""
    x = x.reshape(len(x), -1)
    low, high = np.quantile(x, [0.16, 0.84], axis=0)
    with np.errstate(over="ignore"):
        ratios = [log_density(x + s * (high - low)) - log_density(x) for s in (1, -1)]
    return Moves(np.stack(ratios, axis=-1)[None], np.full(x.shape[1], 2.0))
