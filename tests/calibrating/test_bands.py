"""Bands of distribution functions, against enumeration and simulation."""

import math
from itertools import product

import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.calibrating.bands import band_of_ranks, coverage, num_points, uniform_p_value


def leave(ranks, level):
    """Which rows of uniform numbers leave their band."""
    limits = band_of_ranks(ranks.shape[1], level)
    found = np.stack([np.searchsorted(np.sort(row), limits.points, "right") for row in ranks])
    shares = found / ranks.shape[1]
    return ((shares < limits.lower - 1e-12) | (shares > limits.upper + 1e-12)).any(axis=1)


@pytest.mark.parametrize("gamma", [0.3, 0.11, 0.02])
def test_the_coverage_is_that_of_all_cells_counted(gamma):
    """Enumeration of all ways in which 5 numbers fall into 5 cells."""
    num, inside = 5, 0.0
    points = np.arange(1, num) / num
    tail = [
        [sum(math.comb(num, j) * z**j * (1 - z) ** (num - j) for j in range(k + 1)) for z in points]
        for k in range(-1, num + 1)
    ]
    for cells in product(range(num + 1), repeat=num):
        if sum(cells) != num:
            continue
        counts = np.cumsum(cells)[:-1]
        below = [tail[k + 1][i] for i, k in enumerate(counts)]
        above = [1 - tail[k][i] for i, k in enumerate(counts)]
        if min(*below, *above) > gamma / 2 + 1e-12:
            inside += math.factorial(num) / math.prod(map(math.factorial, cells)) / num**num
    assert num_points(num) == num + 1
    assert coverage(num, gamma) == pytest.approx(inside, abs=1e-12)


def test_bands_hold_as_often_as_they_say():
    rng, replications = np.random.default_rng(0), 4000
    uniform = rng.random((replications, 60))
    limits = band_of_ranks(60)
    assert 0.95 <= limits.coverage < 0.96
    rate = leave(uniform, 0.95).mean()
    error = math.sqrt(limits.coverage * (1 - limits.coverage) / replications)
    assert abs(rate - (1 - limits.coverage)) < Z_MAX * error
    # Pointwise limits, taken for simultaneous ones, are left far more often.
    assert abs(1 - coverage(60, 0.05) - (1 - limits.coverage)) > 2 * Z_MAX * error
    p_values = np.array([uniform_p_value(row) for row in uniform[:500]])
    np.testing.assert_array_equal(p_values <= 0.05, leave(uniform[:500], 0.95))


def test_the_p_value_is_small_for_other_laws_and_symmetric():
    rng = np.random.default_rng(1)
    ranks = rng.random(200)
    assert uniform_p_value(ranks) == pytest.approx(uniform_p_value(1 - ranks), rel=1e-6)
    assert uniform_p_value(ranks) > 1e-3
    assert uniform_p_value(ranks**2) < 1e-12
    assert uniform_p_value(np.full(3, 0.5)) <= 1.0


def test_bands_refuse_what_has_no_distribution():
    with pytest.raises(ValueError, match="num must be an integer of at least 2"):
        aide.calibrating.band_of_ranks(1)
    with pytest.raises(ValueError, match="level"):
        aide.calibrating.band_of_ranks(20, 1.5)
