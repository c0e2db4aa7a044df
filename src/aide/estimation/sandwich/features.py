r"""Numbers for a classifier to look at, made from outputs of any structure.

Any function of the output gives a valid lower bound; good features only make it tighter. Real
numbers contribute linear and quadratic terms (with products, the exact log ratio of two Gaussians)
and hinges; discrete ones contribute indicators, and along a leading time axis indicators of
neighbouring pairs (the exact log ratio of two Markov chains). Where the budget ends, a group is
thinned to columns at even distances. Everything is fixed on the training runs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

MOST_CATEGORIES = 12
"""Whole numbers with more different values than this count as real numbers."""
KNOTS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles at which hinges bend."""
MOST_FEATURES = 150

Group = Callable[[Any], np.ndarray]


class Features(NamedTuple):
    """Groups of columns, each a function of stacked outputs."""

    groups: tuple[Group, ...]

    def __call__(self, values: Any) -> np.ndarray:
        """One row per output."""
        num = len(jax.tree.leaves(values)[0])
        return np.concatenate([np.empty((num, 0)), *(group(values) for group in self.groups)], 1)


def choose_features(values: Any, budget: int) -> Features:
    """Features for outputs like these, at most `budget` and `MOST_FEATURES` of them."""
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
    """All real numbers of outputs like these about 0 with a spread of about 1, at most so many."""
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
    """The values of a discrete variable with few of them; none of any other."""
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
