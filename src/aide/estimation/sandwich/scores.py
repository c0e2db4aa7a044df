r"""Whole distributions in three numbers: log ratios of Gaussians fitted to both kinds of outputs.

Where there are many coordinates and few runs, features of single coordinates are too many to be
fitted: two Gaussians in 20 dimensions whose variances differ by a factor of 25 are hundreds of nats
apart, and 300 runs support no 20 squares beside 20 linear terms. Means and shrunken covariances can
be estimated from as few; a classifier then has three slopes to fit.

Scores of the runs that they were fitted to would look too good. So the training runs are divided in
two; each half is scored by the fit to the other one, and new outputs by the average of both.
"""

from typing import Any, NamedTuple

import numpy as np

from aide._core.types import Role
from aide.estimation.sandwich.features import Group, standardise
from aide.estimation.sandwich.legendre import Pair
from aide.estimation.sandwich.recipe import Recipe

MOST_COLUMNS = 150
"""Coordinates that a covariance is fitted to; of more, as many at even distances."""
MOST_SCORE = 100.0
"""Nats up to which a fitted log ratio counts."""
LEAST_VARIANCE = 1e-6
"""Of standardised coordinates, of which some may be constant in one kind."""


class _Spread(NamedTuple):
    precision: np.ndarray
    log_volume: float


class _Gaussian(NamedTuple):
    mean: np.ndarray
    spread: _Spread

    def __call__(self, x: np.ndarray) -> np.ndarray:
        deviation = x - self.mean
        squares = np.sum((deviation @ self.spread.precision) * deviation, axis=1)
        return -0.5 * squares - self.spread.log_volume


class _Fit(NamedTuple):
    """Pairs of Gaussians: with all correlations, without any, and with the same for both."""

    pairs: tuple[tuple[_Gaussian, _Gaussian], ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if not self.pairs:  # nothing is real
            return np.empty((len(x), 0))
        ratios = [np.clip(p(x) - q(x), -MOST_SCORE, MOST_SCORE) for p, q in self.pairs]
        return np.stack(ratios, axis=1)


class Scores(NamedTuple):
    """Three columns, each a fitted log ratio."""

    columns: Group
    fits: tuple[_Fit, _Fit]
    training: Pair

    def __call__(self, values: Any) -> np.ndarray:
        """One row per output."""
        x = self.columns(values)
        return 0.5 * (self.fits[0](x) + self.fits[1](x))


def fit_scores(recipe: Recipe, both: Any) -> Scores:
    """Fit to the runs of a recipe.

    Args:
        recipe: The training runs.
        both: Their values, joined, by which coordinates are standardised.
    """
    columns = standardise(both, MOST_COLUMNS)
    x = columns(recipe.values[0]), columns(recipe.values[1])
    half = recipe.folds(2)
    fits = [
        _fit(*(part[fold != number] for part, fold in zip(x, half, strict=True)))
        for number in (0, 1)
    ]
    scored = []
    for role in Role:
        rows = np.empty((len(x[role]), len(fits[0].pairs)))
        for number, fit in enumerate(fits):
            rows[half[role] == number] = fit(x[role][half[role] == number])
        scored.append(rows)
    return Scores(columns, (fits[0], fits[1]), (scored[0], scored[1]))


def _fit(gold: np.ndarray, target: np.ndarray) -> _Fit:
    if gold.shape[1] == 0:
        return _Fit(())
    means, spreads = [], []
    for x in (gold, target):
        means.append(x.mean(axis=0))
        spread = (x - means[-1]).T @ (x - means[-1]) / max(len(x) - 1, 1)
        own = np.maximum(np.diag(spread), LEAST_VARIANCE)
        weight = x.shape[1] / (x.shape[1] + len(x))
        spreads.append(((1 - weight) * spread + weight * np.diag(own), own))
    common = _full(0.5 * (spreads[0][0] + spreads[1][0]))
    kinds = [(_full(full), _diagonal(own), common) for full, own in spreads]
    return _Fit(
        tuple((_Gaussian(means[0], p), _Gaussian(means[1], q)) for p, q in zip(*kinds, strict=True))
    )


def _full(covariance: np.ndarray) -> _Spread:
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, LEAST_VARIANCE)
    return _Spread((vectors / values) @ vectors.T, 0.5 * float(np.log(values).sum()))


def _diagonal(variances: np.ndarray) -> _Spread:
    return _Spread(np.diag(1.0 / variances), 0.5 * float(np.log(variances).sum()))
