"""Means and their standard errors."""

from typing import NamedTuple

import numpy as np


class Mean(NamedTuple):
    """A mean and its standard error (NaN for a single run, infinite for infinite terms)."""

    value: float
    std_error: float


class Bracket(NamedTuple):
    """A two-sided bound, in expectation: the mean of `lower` is below, that of `upper` above."""

    lower: Mean
    upper: Mean


def mean_of(terms: np.ndarray) -> Mean:
    """Mean and standard error; an infinite term makes both infinite."""
    if np.isinf(terms).any():
        return Mean(float(terms[np.isinf(terms)][0]), np.inf)
    error = terms.std(ddof=1) / np.sqrt(terms.size) if terms.size > 1 else np.nan
    return Mean(float(terms.mean()), float(error))
