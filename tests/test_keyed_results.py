"""Keyed results stay what they were, to rounding; see `support.keyed`.

Those of the algorithms in the registry are compared where their laws are tested
(`laws/test_laws.py`), from the same runs; here with programs for as few runs as were recorded.
"""

import pytest
from support.keyed import NAMES, RECORDED, check_unchanged, draws_of
from support.registry import REGISTRY

QUICK = ("tractable-shifted", "filter-ess-systematic-2")


def test_everything_is_recorded():
    assert len(NAMES) >= 40
    assert set(NAMES) == set(RECORDED)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full)
        if name in REGISTRY and name not in QUICK
        else name
        for name in NAMES
    ],
)
def test_same_key_same_numbers(name):
    check_unchanged(name, draws_of(name))
