"""Regions that one population misses: found where they are missing, and hardly ever where not."""

import numpy as np
import pytest

from aide.gold_standards.starts.regions import missing_region

RNG = np.random.default_rng(0)


def normal(num=1000, dimension=5):
    return RNG.normal(size=(num, dimension))


def test_two_populations_of_one_distribution():
    """None of 300 pairs, though every other one has each of its members twice."""
    twice = lambda flat: np.repeat(flat[::2], 2, axis=0)
    for number in range(300):
        one, other = normal(), normal()
        pair = (twice(one), twice(other)) if number % 2 else (one, other)
        assert missing_region(*pair) is None


@pytest.mark.parametrize("num", [1000, 4000])
def test_a_tail_that_is_missing(num):
    one = normal(num)
    other = normal(2 * num)
    other = other[other[:, 3] < 1.6][:num]  # 5.5% are above
    found = missing_region(one, other)
    assert found is not None
    assert found.place == 3
    assert found.high == np.inf
    assert found.share > 3 * found.other
    assert "coordinate 3 above 1." in found.words
    assert missing_region(other, one) is None


def test_a_gap_in_the_middle():
    one, other = normal(), normal(3000)
    other = other[np.abs(other[:, 0] - 0.3) > 0.1]
    found = missing_region(one, other)
    assert found is not None
    assert found.place == 0
    assert "between 0." in found.words
