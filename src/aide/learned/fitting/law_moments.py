r"""Moments of a law and of the gradient $g$ of a log density under it, from sums over pilots."""

from typing import NamedTuple

import numpy as np

RIDGE = 1e-9
"""Relative to the diagonal, where a regression is singular."""


class Law(NamedTuple):
    """Moments of a law and of the gradient $g$ under it."""

    mean: np.ndarray
    covariance: np.ndarray
    mean_slope: np.ndarray
    cross: np.ndarray


def law_of(sums: np.ndarray, power: float = 1.0) -> Law:
    """With the gradients times a power."""
    size = (sums.shape[1] - 1) // 2
    total = sums[: 1 + size] / sums[0, 0]
    mean, mean_slope = total[0, 1 : 1 + size], power * total[0, 1 + size :]
    covariance = total[1:, 1 : 1 + size] - np.outer(mean, mean)
    covariance = covariance + np.diag(1e-12 + RIDGE * np.diag(covariance))
    cross = power * total[1:, 1 + size :].T - np.outer(mean_slope, mean)
    return Law(mean, covariance, mean_slope, cross)


def mean_bend(bends: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The mean Hessian, made symmetric."""
    return 0.5 * (bends + bends.T) / sums[0, 0]
