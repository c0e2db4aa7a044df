"""What must hold for a gold standard to pass, and what is said where it does not."""

from dataclasses import replace
from typing import Any

import pytest

from aide.gold_standards.record import Agreement, Record

AGREES = Agreement("itself at half the budget", 0.03, 0.05, 0.2, "passed", 0.088)
GOOD = Record("SMC", 0.05, (), (0.03, 0.005), (1.0, 0.03), 0.18, (AGREES,))

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "scatters": ({"scatter": 0.55, "looseness": (0.3, 0.06), "goal": 0.5}, "by 0.55 nats from"),
    "evidence unknown": ({"scatter": float("nan")}, "by nan nats from run to run, 0.5 at most"),
    "contradiction": ({"scatter": 0.45, "looseness": (0.001, 0.0002)}, "a few runs reach what"),
    "loose": ({"looseness": (0.5, 0.01), "scatter": 0.4}, "0.05 were asked for"),
    "undecided": ({"agreements": (replace(AGREES, outcome="undecided"),)}, "was not shown to"),
    "disagrees": ({"agreements": (AGREES, replace(AGREES, outcome="failed"))}, "disagrees with"),
    "alone": ({"agreements": ()}, "no other version of it"),
    "untested": ({"objections": ("from a wider start, pilots failed",)}, "wider start"),
}


def test_what_passes():
    assert GOOD.passed
    assert GOOD.doubts == ()
    assert "up to 8.8% of the outputs left out" in AGREES.words


@pytest.mark.parametrize("name", CASES)
def test_what_does_not(name):
    changes, words = CASES[name]
    record = replace(GOOD, **changes)
    assert not record.passed
    (doubt,) = record.doubts
    assert words in doubt
    again = Record.from_json(record.to_json())
    assert again.doubts == record.doubts


@pytest.mark.parametrize("looseness", [0.001, 0.01, 0.05, 0.15])
def test_a_scatter_that_looseness_explains(looseness):
    """Its variance is the looseness; by chance, of 40 runs, up to twice that."""
    record = replace(GOOD, looseness=(looseness, 0.1 * looseness), goal=0.2)
    assert replace(record, scatter=looseness**0.5).passed
    assert replace(record, scatter=(1.6 * looseness) ** 0.5).passed
