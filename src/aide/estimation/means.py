"""Means and their standard errors."""

from typing import NamedTuple

import numpy as np

from aide._core.chains import mean_variance, split_rhat

Sequences = tuple[np.ndarray, ...]
"""Rows of terms that depend on each other: one array per chain, in the order of the chain."""


class Mean(NamedTuple):
    """A mean and its standard error (NaN for a single run, infinite for infinite terms)."""

    value: float
    std_error: float


class Worth(NamedTuple):
    """What the terms of a fixed list of draws are worth.

    Attributes:
        effective: Independent terms that would be worth as much.
        rhat: Split R-hat of the terms between chains; NaN where it is not defined.
    """

    effective: float
    rhat: float


class Bracket(NamedTuple):
    """A two-sided bound, in expectation: the mean of `lower` is below, that of `upper` above."""

    lower: Mean
    upper: Mean


def mean_of(terms: np.ndarray, sequences: Sequences | None = None) -> Mean:
    """Mean and standard error; an infinite term makes both infinite.

    Args:
        terms: One number per run.
        sequences: How runs depend on each other; `None` if they do not.
    """
    if np.isinf(terms).any():
        return Mean(float(terms[np.isinf(terms)][0]), np.inf)
    if sequences is not None and terms.size > 1:
        found = mean_variance([terms[rows] for rows in sequences])
        return Mean(float(terms.mean()), float(np.sqrt(found.variance)))
    error = terms.std(ddof=1) / np.sqrt(terms.size) if terms.size > 1 else np.nan
    return Mean(float(terms.mean()), float(error))


def worth_of(terms: np.ndarray, sequences: Sequences | None) -> Worth | None:
    """What terms that depend on each other are worth; `None` if they do not."""
    if sequences is None:
        return None
    parts = [terms[rows] for rows in sequences]
    if not np.isfinite(terms).all():
        return Worth(np.nan, np.nan)
    return Worth(mean_variance(parts).effective, split_rhat(parts))
