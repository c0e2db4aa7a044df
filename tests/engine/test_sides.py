"""A side owns its facts, and files keep them where they always were."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.made import made_draws, swapped

from aide._core.types import GOLD, TARGET, as_role
from aide.engine.dataset import draws_of, runs_in, to_xarray
from aide.engine.programs.identity import Identity

SETTINGS = (
    '{"num_meta": [1, 2], "names": ["fit", "chain"], "log_z": [0.5, null], '
    '"tractable": [true, false], "key_data": [0, 7], "first_run": 3, "identities": '
    '[{"kind": "Tractable", "digest": "fe3c", "facts": {"class Tractable": "914a"}, '
    '"unseen": ["f"]}, null], "pooled": []}'
)
"""As version 0.1 wrote them."""


def _draws():
    tables = (np.zeros((4, 2)), np.ones((4, 2))), (np.zeros((3, 3)), np.ones((3, 1)))
    draws = made_draws(*tables, (1, 2), (0.5, None), ("fit", "chain"))
    identity = Identity("Tractable", "fe3c", {"class Tractable": "914a"}, ("f",))
    draws = draws.with_side(replace(draws.gold, tractable=True, identity=identity))
    return replace(draws, key_data=(0, 7), first_run=3)


def test_files_of_version_0_1_are_files_of_this_one():
    dataset = to_xarray(_draws())
    assert dataset.attrs["aide_settings"] == SETTINGS
    assert json.loads(SETTINGS)["identities"][1] is None
    again = draws_of(*runs_in(dataset))
    for role in (GOLD, TARGET):
        one, two = _draws().side(role), again.side(role)
        for fact in ("role", "num_meta", "name", "log_z", "tractable", "identity"):
            assert getattr(one, fact) == getattr(two, fact)


def test_roles():
    draws = _draws()
    assert draws.sides == (draws.gold, draws.target)
    assert draws.side(TARGET) is draws.target
    assert swapped(draws).gold.name == "chain"
    with pytest.raises(ValueError, match="draws.gold must hold a side of that role"):
        replace(draws, gold=draws.target)
    assert as_role("target") is TARGET
    with pytest.raises(ValueError, match="role must be 'gold' or 'target', got 'both'"):
        as_role("both")


def test_fewer_meta_runs_of_the_same_draws():
    draws = _draws().with_num_meta(TARGET, 1)
    assert (draws.gold.num_meta, draws.target.num_meta) == (1, 1)
    assert draws.target.own.shape == (3, 3)
