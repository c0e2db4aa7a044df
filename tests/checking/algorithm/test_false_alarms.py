"""Every test with a stated rate holds it, on correct inputs that defeat a normal approximation."""

import numpy as np
import pytest
from support.correct import GRID, LEVELS, alarm_counts

CASES = [(kind, name) for kind, (cases, _) in GRID.items() for name in cases]


def assert_rates(kind, name, seed, num):
    limit = LEVELS[0] * num + 4 * np.sqrt(LEVELS[0] * num)
    for law, (often, seldom, smallest) in alarm_counts(kind, name, seed, num).items():
        assert often <= limit, (kind, name, law, often)
        assert seldom == 0, (kind, name, law, smallest)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_correct_inputs_raise_no_alarm(kind, name):
    assert_rates(kind, name, seed=1, num=10)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_correct_inputs_raise_alarms_at_the_stated_rate(kind, name):
    assert_rates(kind, name, seed=2, num=1000)


FINDABLE = {
    "normal",
    "two traces",
    "lognormal 1",
    "atom 0.009",
    "two modes 0.01, reversible",
    "two modes 0.01, invariance",
    "sweep, rare states 0.01",
    "posterior",
    "fit off by 1 sd",
}
"""Where the error is not drowned by the rare or heavy-tailed terms themselves."""


@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case[1] in FINDABLE])
def test_wrong_versions_of_the_same_are_found(kind, name):
    rng = np.random.default_rng(3)
    found = [min(GRID[kind][1](name, rng, wrong=True).values()) for _ in range(5)]
    assert np.median(found) < 1e-6, found
