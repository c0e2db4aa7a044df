r"""Numbers that the classifier gets, made from outputs of any structure.

Any function of the output gives a valid lower bound; good features only make it tighter. Real
numbers contribute linear and quadratic terms (with products, the exact log ratio of two Gaussians)
and hinges; discrete ones contribute indicators, and along a leading time axis indicators of
neighbouring pairs (the exact log ratio of two Markov chains). Where a group of features exceeds the
budget that is left, only columns at even distances are kept. All features are fixed on the training
runs.

**Gaussian features** (`fit_gaussians`) describe outputs by three numbers: log ratios of Gaussians
fitted to both algorithms' outputs. Where there are many coordinates and few runs, coefficients of
single coordinates cannot be fitted: two Gaussians in 20 dimensions whose variances differ by a
factor of 25 are hundreds of nats apart, and 300 runs do not support 20 squares beside 20 linear
terms. The same runs do support means and shrunken covariances; the classifier then has three slopes
to fit. The log ratios of the runs that the Gaussians were fitted to would be too large. So the
training runs are divided in two halves; each half is scored by the fit to the other one, and
held-out outputs by the average of both fits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.types import Role
from aide.estimation.sandwich.inputs import ClassifierInputs
from aide.estimation.sandwich.legendre import Pair

MOST_CATEGORIES = 12
"""Largest number of different values of an integer variable that counts as discrete."""
KNOTS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of a real number at which the slopes of the hinge features change."""
MOST_FEATURES = 150
"""Largest number of features: a classifier with more takes too long and generalises worse."""
MOST_COLUMNS = 150
"""Largest number of coordinates of a fitted Gaussian; of more, those at even distances."""
MOST_SCORE = 100.0
"""Nats at which a fitted log ratio is clipped: far beyond what 200 runs can show."""
LEAST_VARIANCE = 1e-6
"""Least variance of a standardised coordinate, which may be constant in one algorithm's outputs."""


Group = Callable[[Any], np.ndarray]
"""Columns of features as a function of stacked outputs: one row per output."""


class Features(NamedTuple):
    """Groups of columns, each a function of stacked outputs."""

    groups: tuple[Group, ...]

    def __call__(self, values: Any) -> np.ndarray:
        """One row per output."""
        num = len(jax.tree.leaves(values)[0])
        return np.concatenate([np.empty((num, 0)), *(group(values) for group in self.groups)], 1)


def choose_features(values: Any, budget: int) -> Features:
    """At most `budget` and `MOST_FEATURES` features, chosen by the stacked outputs `values`."""
    candidates: list[tuple[int, Group]] = []
    for index, leaf in enumerate(jax.tree.leaves(values)):
        array = np.asarray(leaf)
        categories = _categories(array)
        if categories.size:
            candidates += _discrete(index, categories)
        else:
            candidates += _continuous(index, _flat(array))
    left, groups = min(budget, MOST_FEATURES), []
    for _, group in sorted(candidates, key=lambda candidate: candidate[0]):
        width = group(_first(values)).shape[1]
        if 0 < left < width:
            group, width = _thinned(group, width, left), left
        if 0 < width <= left:
            groups.append(group)
            left -= width
    return Features(tuple(groups))


def standardise(values: Any, most: int) -> Group:
    """All real numbers of an output with centre 0 and spread 1, at most `most` of them."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
    parts = [
        _continuous(index, _flat(leaf))[0][1]
        for index, leaf in enumerate(leaves)
        if not _categories(leaf).size
    ]

    def columns(values: Any) -> np.ndarray:
        num = len(jax.tree.leaves(values)[0])
        return np.concatenate([np.empty((num, 0)), *(part(values) for part in parts)], axis=1)

    width = columns(_first(values)).shape[1]
    return _thinned(columns, width, most) if width > most else columns


def _categories(array: np.ndarray) -> np.ndarray:
    """The values of a discrete variable if there are few of them; otherwise an empty array."""
    found = np.unique(array) if array.dtype.kind in "biu" else np.empty(0)
    return found if found.size <= MOST_CATEGORIES else np.empty(0)


def _thinned(group: Group, width: int, num: int) -> Group:
    columns = np.linspace(0, width - 1, num).round().astype(int)
    return lambda values: group(values)[:, columns]


def _continuous(index: int, sample: np.ndarray) -> list[tuple[int, Group]]:
    middle = np.median(sample, axis=0)
    low, high = np.quantile(sample, [0.16, 0.84], axis=0)
    scale = np.maximum(0.5 * (high - low), 1e-3 * sample.std(axis=0))
    scale = np.where(scale > 0, scale, 1.0)

    def standardised(values: Any) -> np.ndarray:
        return np.clip((_flat(jax.tree.leaves(values)[index]) - middle) / scale, -20.0, 20.0)

    knots = np.quantile(np.clip((sample - middle) / scale, -20.0, 20.0), KNOTS, axis=0)
    rows, columns = np.triu_indices(len(middle), 1)

    def products(values: Any) -> np.ndarray:
        z = standardised(values)
        return z[:, rows] * z[:, columns]

    def neighbours(values: Any) -> np.ndarray:
        z = standardised(values)
        return z[:, 1:] * z[:, :-1]

    def hinges(values: Any) -> np.ndarray:
        z = standardised(values)
        return np.concatenate([np.maximum(z - knot, 0.0) for knot in knots], axis=1)

    found: list[tuple[int, Group]] = [(0, standardised), (1, lambda v: standardised(v) ** 2)]
    few = len(rows) <= MOST_FEATURES - 2 * len(middle)
    return [*found, (3, products if few else neighbours), (4, hinges)]


def _discrete(index: int, categories: np.ndarray) -> list[tuple[int, Group]]:
    def indicators(values: Any) -> np.ndarray:
        flat = _flat(jax.tree.leaves(values)[index])
        return np.concatenate([flat == category for category in categories[1:]], 1).astype(float)

    def pairs(values: Any) -> np.ndarray:
        array = np.asarray(jax.tree.leaves(values)[index])
        if array.ndim < 2:
            return np.empty((len(array), 0))
        before, after = _flat(array[:, :-1]), _flat(array[:, 1:])
        columns = [
            (before == one) & (after == other) for one in categories[1:] for other in categories[1:]
        ]
        return np.concatenate(columns, axis=1).astype(float)

    return [(0, indicators), (2, pairs)]


def _flat(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    return np.nan_to_num(array.reshape(len(array), -1).astype(np.float64), posinf=1e9, neginf=-1e9)


def _first(values: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:1], values)


class _Spread(NamedTuple):
    """The inverse of a covariance, and half the logarithm of its determinant."""

    precision: np.ndarray
    log_volume: float


class _Gaussian(NamedTuple):
    mean: np.ndarray
    spread: _Spread

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The log density of every row, without the constant that all Gaussians share."""
        deviation = x - self.mean
        squares = np.sum((deviation @ self.spread.precision) * deviation, axis=1)
        return -0.5 * squares - self.spread.log_volume


class _Fit(NamedTuple):
    """Pairs of Gaussians: with all correlations, without any, and with the same for both."""

    pairs: tuple[tuple[_Gaussian, _Gaussian], ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if not self.pairs:  # outputs without real numbers
            return np.empty((len(x), 0))
        ratios = [np.clip(p(x) - q(x), -MOST_SCORE, MOST_SCORE) for p, q in self.pairs]
        return np.stack(ratios, axis=1)


class GaussianFeatures(NamedTuple):
    """Three features: the fitted log ratios.

    Attributes:
        columns: Standardised real numbers of outputs.
        fits: The fit to either half of the training runs.
        training: The features of the training runs, each by the fit to the other half.
    """

    columns: Group
    fits: tuple[_Fit, _Fit]
    training: Pair

    def __call__(self, values: Any) -> np.ndarray:
        """One row per output."""
        x = self.columns(values)
        return 0.5 * (self.fits[0](x) + self.fits[1](x))


def fit_gaussians(inputs: ClassifierInputs, both: Any) -> GaussianFeatures:
    """Fit pairs of Gaussians to training runs.

    Args:
        inputs: The training runs.
        both: Outputs of both algorithms, joined, by which coordinates are standardised.
    """
    columns = standardise(both, MOST_COLUMNS)
    x = columns(inputs.values[0]), columns(inputs.values[1])
    half = inputs.folds(2)
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
    return GaussianFeatures(columns, (fits[0], fits[1]), (scored[0], scored[1]))


def _fit(gold: np.ndarray, target: np.ndarray) -> _Fit:
    """Fit to rows of coordinates; covariances are shrunken towards their diagonals."""
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
