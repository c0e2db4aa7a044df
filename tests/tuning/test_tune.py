"""The cheapest setting that will do, and what stands in the way of a cheaper one."""

import pytest
from support.pairs import KEY
from support.plain import plain

import aide
from aide.tuning.point import settings_of
from aide.tuning.tune import _starts

MEANS = [1.0, 0.5, 0.3, 0.1]
"""The divergence is the square, so that later ones are closer, and costlier."""


def cost(setting):
    return -setting["mean"]


@pytest.fixture(scope="module")
def found():
    return aide.tune(KEY, plain(), plain, {"mean": MEANS}, tolerance=0.15, cost=cost)


def test_the_cheapest_setting_within_the_tolerance_is_chosen(found):
    assert found.setting == {"mean": 0.3}
    assert found.verdict == "passed"
    assert found.best.limits[1] <= 0.15
    assert found.headline.startswith(
        "The cheapest setting within 0.15 nats of PlainNoisy is mean=0.3: its"
    )
    outcomes = {record["mean"]: record["outcome"] for record in found.records()}
    assert outcomes[0.3] == "passed"
    assert outcomes[1.0] == "not tried: bound above"
    found.plot()
    assert found.to_json()


def test_shares_of_further_starts_add_up(found):
    starts = _starts(list(found.ladder), 0.15)
    assert sum(share for _, share in starts) <= 1.0
    assert starts[0][1] == 0.5


def test_none_will_do():
    far = aide.tune(KEY, plain(), plain, {"mean": [2.0, 1.0]}, tolerance=0.1, cost=cost)
    assert far.best is None
    assert far.headline == "No setting was shown to be within 0.1 nats of PlainNoisy"
    assert far.verdict == "undecided"


def test_looseness_in_the_way_is_said():
    """Meta-inference that no affordable M mends: outputs are the same, N(0, 2²)."""
    gold = plain(0.0, 0.0, 2.0)
    loose = aide.tune(
        KEY,
        gold,
        lambda std: plain(0.0, (4.0 - std**2) ** 0.5, std),
        {"std": [0.05]},
        tolerance=0.1,
        max_runs=300,
    )
    assert loose.best is None
    assert "looseness of the bound, not the algorithm, may be why" in loose.notes[0]


@pytest.mark.full
def test_a_folder_continues(tmp_path, found):
    first = aide.tune(
        KEY, plain(), plain, {"mean": MEANS}, tolerance=0.15, cost=cost, folder=tmp_path
    )
    again = aide.tune(
        KEY, plain(), plain, {"mean": MEANS}, tolerance=0.15, cost=cost, folder=tmp_path
    )
    assert again.setting == first.setting == found.setting
    assert again.numbers() == first.numbers()  # the number of runs, too
    assert (tmp_path / "pilots.json").exists()
    with pytest.raises(ValueError, match="holds pilots of another call"):
        aide.tune(KEY, plain(), plain, {"mean": MEANS}, tolerance=0.2, cost=cost, folder=tmp_path)


def test_what_cannot_be_done_is_said_at_once():
    with pytest.raises(ValueError, match="tune chooses num_meta_gold and num_meta_target itself"):
        aide.tune(KEY, plain(), plain, {"num_meta_target": [1]}, tolerance=0.1)
    assert settings_of([{"mean": 0.1}]) == ({"mean": 0.1},)
