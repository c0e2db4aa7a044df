r"""Which functions of a draw have different means in two sets?

Every coordinate is replaced by normal scores of its ranks in both sets together, which makes tails
harmless and changes nothing if the two are equal. Of the scores $z$, location $z_i$, spread
$z_i^2$ and dependence $z_i z_j$ are compared (`mean_tests`), with what draws that depend on each
other are worth. P-values are multiplied by the number of functions (Bonferroni).
"""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import special
from aide.comparing.draw_sets import DrawSet
from aide.comparing.mean_tests import mean_test

MOST_PAIRS = 500
"""Of more pairs of coordinates, only neighbours are compared."""


class FunctionTest(NamedTuple):
    """One function in both sets.

    Attributes:
        function: Whose what: `location of x[0]`.
        in_a: Mean, standard deviation or correlation in the first set.
        in_b: The same in the second.
        p_value: For all functions together.
        column: The coordinate, or the first of two.
    """

    function: str
    in_a: float
    in_b: float
    p_value: float
    column: int


def compare_functions(a: DrawSet, b: DrawSet) -> tuple[FunctionTest, ...]:
    """All functions, the most telling first."""
    scores = _normal_scores(np.concatenate([a.columns, b.columns]))
    z, w = scores[: len(a.columns)], scores[len(a.columns) :]
    names, size = a.coordinates, scores.shape[1]
    found: list[tuple[str, float, float, float, int]] = []
    for i in range(size):
        mean, spread = (
            (a.columns[:, i].mean(), b.columns[:, i].mean()),
            (
                a.columns[:, i].std(),
                b.columns[:, i].std(),
            ),
        )
        found.append((f"location of {names[i]}", *mean, _p_value(a, b, z[:, i], w[:, i]), i))
        squares = z[:, i] ** 2, w[:, i] ** 2
        found.append((f"spread of {names[i]}", *spread, _p_value(a, b, *squares), i))
    for i, j in _pairs(size):
        products = z[:, i] * z[:, j], w[:, i] * w[:, j]
        correlations = _correlation(z[:, i], z[:, j]), _correlation(w[:, i], w[:, j])
        name = f"dependence of {names[i]}, {names[j]}"
        found.append((name, *correlations, _p_value(a, b, *products), i))
    tests = [
        FunctionTest(name, float(x), float(y), min(1.0, p * len(found)), i)
        for name, x, y, p, i in found
    ]
    return tuple(sorted(tests, key=lambda test: test.p_value))


def _pairs(size: int) -> list[tuple[int, int]]:
    if size * (size - 1) // 2 <= MOST_PAIRS:
        return [(i, j) for i in range(size) for j in range(i + 1, size)]
    return [(i, i + 1) for i in range(size - 1)]


def _p_value(a: DrawSet, b: DrawSet, in_a: np.ndarray, in_b: np.ndarray) -> float:
    return mean_test(in_a, in_b, (a.sequences, b.sequences), (a.effective, b.effective))


def _normal_scores(columns: np.ndarray) -> np.ndarray:
    from scipy import stats

    ranks = stats.rankdata(columns, axis=0)
    return special.ndtri((ranks - 0.5) / len(columns))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    scale = x.std() * y.std()
    return float(np.mean((x - x.mean()) * (y - y.mean())) / scale) if scale > 0 else 0.0
