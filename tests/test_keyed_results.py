"""Forty and more keyed results stay what they were, to rounding; see `support.keyed`."""

import json

import numpy as np
import pytest
from support.keyed import FILE, NAMES, result_of

RECORDED = json.loads(FILE.read_text())
QUICK = ("tractable-shifted", "filter-ess-systematic-2", "learned-walk")


def test_everything_is_recorded():
    assert len(NAMES) >= 40
    assert set(NAMES) == set(RECORDED)


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in NAMES],
)
def test_same_key_same_numbers(name):
    found = result_of(name)
    for kind, sides in RECORDED[name].items():
        for now, before in zip(found[kind], sides, strict=True):
            np.testing.assert_allclose(now, before, rtol=1e-12, atol=1e-12, err_msg=name)
