"""Are these terms too heavy-tailed for a standard error?"""

import math

import numpy as np

HEAVY_TAIL = 0.5
"""Pareto shape above which the variance of the terms is infinite and standard errors mislead."""
MIN_RUNS = 200
"""Fewer terms say little about tails: 7% false alarms on Gaussian pairs at 100, 0.75% at 200."""


def pareto_shape(terms: np.ndarray) -> float:
    r"""Shape $k$ of a generalised Pareto fit to the heavier tail of the terms.

    Moments of order $1/k$ and above do not exist. The fit is the empirical Bayes estimate of
    Zhang & Stephens (2009) on the largest $\min(0.2 N, 3\sqrt N)$ deviations on either side.
    """
    centre = np.median(terms)
    return max(_upper_shape(terms - centre), _upper_shape(centre - terms))


def importance_shape(log_weights: np.ndarray) -> float:
    r"""$\hat k$ of Pareto-smoothed importance sampling (Vehtari et al. 2024).

    The shape of the upper tail of the weights $w_i$, with the weak prior of that paper: the fit is
    worth $n$ and $\frac12$ is worth 10, for $n$ weights in the tail. Above 0.7 importance sampling
    from the approximation is unreliable. It sees only what the approximation visited.
    """
    size = math.ceil(_tail_size(log_weights.size))
    ordered = np.sort(log_weights)
    scaled = np.exp(ordered[-size - 1 :] - ordered[-1])
    excess = scaled[1:] - scaled[0]
    if size < 5 or excess[-1] <= 0 or excess[0] == excess[-1]:
        return -np.inf  # too few different values, or a single atom: no tail
    return (size * _fit(excess[excess > 0]) + 5.0) / (size + 10.0)


def _tail_size(num: int) -> float:
    """How many of the largest count as the tail, before rounding."""
    return min(0.2 * num, 3 * math.sqrt(num))


def _upper_shape(deviations: np.ndarray) -> float:
    size = int(_tail_size(deviations.size))
    ordered = np.sort(deviations)
    excess = ordered[-size:] - ordered[-size - 1]
    excess = excess[excess > 0]
    if excess.size < 5 or excess[0] == excess[-1]:
        return -np.inf  # too few different values, or a single atom: no tail
    return _fit(excess)


def _fit(excess: np.ndarray) -> float:
    """Zhang & Stephens' estimate of the shape; `excess` is sorted and positive."""
    num = excess.size
    grid_size = 30 + int(np.sqrt(num))
    quartile = excess[int(num / 4 + 0.5) - 1]
    steps = 1 - np.sqrt(grid_size / (np.arange(1, grid_size + 1) - 0.5))
    theta = 1 / excess[-1] + steps / (3 * quartile)
    shape = np.mean(np.log1p(-theta[:, None] * excess), axis=1)
    # At theta = 0 the law is exponential: -theta / shape tends to one over the mean.
    with np.errstate(invalid="ignore"):
        rate = np.where(theta == 0, 1 / excess.mean(), -theta / shape)
    log_likelihood = num * (np.log(rate) - shape - 1)
    with np.errstate(over="ignore"):  # an infinite sum is a weight of zero
        weights = 1 / np.sum(np.exp(log_likelihood - log_likelihood[:, None]), axis=1)
    best = np.sum(theta * weights)
    return float(np.mean(np.log1p(-best * excess)))
