"""Keyed results stay what they were, to rounding; see `support.keyed`.

Most are compared where laws are tested (`laws/test_laws.py`, `learned/test_laws.py`), from the same
runs. Here are the others, and two more by programs for as few runs as were recorded.
"""

import pytest
from support.keyed import NAMES, RECORDED, WITH_LAWS, check_unchanged, draws_of

AGAIN = ("tractable-shifted", "filter-ess-systematic-2")


def test_everything_is_recorded():
    assert len(NAMES) >= 40
    assert set(NAMES) == set(RECORDED)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_LAWS or name in AGAIN])
def test_same_key_same_numbers(name):
    check_unchanged(name, draws_of(name))
