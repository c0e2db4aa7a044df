"""Terms of AIDE for tractable pairs with known divergence, skewed in every way up to about 3."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special


class Pair(NamedTuple):
    """The divergence, and a sampler of gold and target terms of any shape (rows, columns)."""

    divergence: float
    sample: Callable[[np.random.Generator, int, int, int], tuple[np.ndarray, np.ndarray]]


def gaussians(mean: float, std: float, dimension: int = 1) -> Pair:
    """N(0, I) and N(mean, std^2 I)."""

    def ratio(z: np.ndarray) -> np.ndarray:
        return np.sum(0.5 * ((z - mean) / std) ** 2 - 0.5 * z * z + np.log(std), axis=-1)

    def sample(rng, rows, num_gold, num_target):
        x = rng.normal(size=(rows, num_gold, dimension))
        y = mean + std * rng.normal(size=(rows, num_target, dimension))
        return ratio(x), -ratio(y)

    spread = (1 + mean**2) / std**2 + std**2 + mean**2 - 2
    return Pair(0.5 * dimension * spread, sample)


def gammas(shape: float, scale: float) -> Pair:
    """Gamma(shape, 1) and Gamma(shape, scale): terms with skewness 2/sqrt(shape)."""

    def ratio(z: np.ndarray) -> np.ndarray:
        return z / scale - z + shape * np.log(scale)

    def sample(rng, rows, num_gold, num_target):
        x = rng.gamma(shape, size=(rows, num_gold))
        return ratio(x), -ratio(scale * rng.gamma(shape, size=(rows, num_target)))

    return Pair(shape * (scale + 1 / scale - 2), sample)


def coins(p: float, q: float) -> Pair:
    """Two Bernoulli distributions: terms with two atoms."""
    heads, tails = np.log(p / q), np.log((1 - p) / (1 - q))

    def sample(rng, rows, num_gold, num_target):
        x, y = rng.random((rows, num_gold)) < p, rng.random((rows, num_target)) < q
        return np.where(x, heads, tails), -np.where(y, heads, tails)

    return Pair((p - q) * (heads - tails), sample)


PAIRS = {
    "Gaussians, shifted": gaussians(0.5, 1.0),
    "Gaussians, nearly equal": gaussians(0.1, 1.02),
    "Gaussians, 1.5 times as wide": gaussians(0.0, 1.5),
    "Gaussians, 3 times as wide": gaussians(0.0, 3.0),
    "Gaussians, 10-D": gaussians(0.3, 1.2, 10),
    "exponentials, 2 times": gammas(1.0, 2.0),
    "gammas, 5 times": gammas(0.46, 5.0),
    "gammas, 1.2 times": gammas(0.46, 1.2),
    "coins, 0.3 and 0.1": coins(0.3, 0.1),
    "coins, 0.15 and 0.1": coins(0.15, 0.1),
    "coins, 0.12 and 0.5": coins(0.12, 0.5),
}


def welch(gold: np.ndarray, target: np.ndarray, level: float) -> float:
    """Student's limit with Welch's degrees of freedom, which knows nothing of skewness."""
    parts = [(terms.var(ddof=1) / terms.size, terms.size) for terms in (gold, target)]
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v * v / (n - 1) for v, n in parts)
    return gold.mean() + target.mean() + special.stdtrit(freedom, level) * np.sqrt(total)
