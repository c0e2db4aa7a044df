"""Versions of an algorithm: its own methods first, rebuilding where that is safe, else none."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import aide
from aide._core.algorithm import describe
from aide._core.versions import NoSuchVersion, budget_version, prefixes_of, rebuilt, started_version
from aide.problems.distributions import Normal

START = Normal(0.0, 1.0)


class Plain:
    """SIR in outline."""

    def __init__(self, num_particles, label="mine"):
        self.num_particles, self.label = num_particles, label

    def simulate(self, key):
        return 0.0, 0.0

    def regenerate(self, key, value):
        return 0.0


class Derived(Plain):
    """What was derived from a setting would be left as it was."""

    def __init__(self, number):
        super().__init__(number)
        self.log_number = np.log(number)


class Fixed(Plain):
    """A class attribute, and nothing of its own."""

    num_particles, label = 4, "fixed"

    def __init__(self):
        pass


@dataclasses.dataclass
class Data(Plain):
    """A dataclass without a label to change."""

    num_particles: int


class Own(Plain):
    """Knows better."""

    def with_budget(self, factor):
        return None if factor < 1 else Own(7)

    def with_start(self, start, label=""):
        return Own(1, label)

    def prefixes(self):
        return [("all of it", lambda: self)]


def test_rebuilding_is_refused_where_it_is_unsafe():
    assert rebuilt(Plain(3), num_particles=5).num_particles == 5
    assert rebuilt(Data(3), num_particles=5) == Data(5)
    assert rebuilt(Fixed(), num_particles=5).num_particles == 5
    assert Fixed.num_particles == 4
    assert rebuilt(Derived(3), num_particles=5) is None
    assert rebuilt(Data(3), colour="red") is None


@pytest.mark.parametrize("wrap", [lambda a: a, aide.PythonAlgorithm], ids=["plain", "wrapped"])
def test_budgets_of_foreign_classes(wrap):
    """Twice as many particles, under a new name; `None` where nobody knows."""
    size = lambda version: getattr(version, "algorithm", version).num_particles
    double: Any = budget_version(wrap(Plain(6)), 2.0)
    assert (size(double), str(double.label)) == (12, "mine, budget times 2")
    assert size(budget_version(wrap(Data(6)), 0.5)) == 3
    assert size(budget_version(wrap(Own(6)), 2.0)) == 7
    for lacking in (Plain(1), Derived(6), Own(6)):
        assert budget_version(wrap(lacking), 0.5) is None


def test_starts_and_beginnings_are_those_an_algorithm_states():
    assert describe(started_version(aide.PythonAlgorithm(Own(6)), START, "there")) == "there"
    assert [name for name, _ in prefixes_of(Own(6))] == ["all of it"]
    assert list(prefixes_of(Plain(6))) == []
    for lacking in (Plain(6), aide.PythonAlgorithm(Plain(6)), aide.Tractable.of(START)):
        with pytest.raises(NoSuchVersion, match="build the algorithm with another start yourself"):
            started_version(lacking, START)
