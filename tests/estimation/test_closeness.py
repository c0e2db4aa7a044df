"""Verdicts, what would decide, and a gate for tests."""

import numpy as np
import pytest
from support.made import estimate_with
from support.pairs import KEY
from support.plain import plain

import aide
from aide.estimation.closeness import judge, remedy, rounded
from aide.estimation.interval import InterimLook, share_of
from aide.estimation.summary import Estimate

NOISE = np.linspace(-1.0, 1.0, 500)


def test_require_raises_with_the_sandwich_in_the_message():
    sizes = {"num_gold": 100, "num_target": 100, "num_meta_gold": 2, "num_meta_target": 2}
    near = aide.estimate(KEY, plain(), plain(0.1), **sizes)  # two scores show them tractable
    far = aide.estimate(KEY, plain(), plain(2.0), **sizes)
    assert near.require(0.5) is near
    both = far.sandwich()
    with pytest.raises(aide.estimation.NotWithin, match="too far away") as caught:
        far.require(0.5)
    assert f"{both.lower:.3g} ≤ divergence ≤ {both.upper:.3g} (95%)" in str(caught.value)
    assert caught.value.closeness.outcome == "failed"
    with pytest.raises(
        aide.estimation.NotWithin, match="Undecided: raise num_gold to about"
    ) as caught:
        near.require(0.0101)
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(ValueError, match="tolerance must be a positive number of nats, got -1"):
        near.require(-1)


def test_the_number_of_runs_that_would_decide():
    """Limits approach the bound like one over the root of N."""
    found = estimate_with(0.1 + NOISE, 0.1 + NOISE, (None, None))
    closeness = judge(found, 0.24)
    assert closeness.outcome == "undecided"
    distance = closeness.upper - found.value
    times = (distance / (0.24 - found.value)) ** 2
    assert remedy(found, closeness) == (
        f"raise num_gold to about {rounded(500 * times):,} and num_target to about "
        f"{rounded(500 * times):,}"
    )
    enough = np.tile(0.1 + NOISE, int(np.ceil(times)) + 1)
    assert judge(estimate_with(enough, enough, (None, None)), 0.24).outcome == "passed"
    words = remedy(found, judge(found, found.value + 1e-6)._replace(lacks=""))
    assert "no affordable number of runs decides" in words


def test_looks_share_the_permitted_error():
    assert sum(share_of(k) for k in range(1, 10_000)) == pytest.approx(1.0, abs=1e-3)
    one = estimate_with(0.1 + NOISE, 0.1 + NOISE)
    look = Estimate(one.draws, InterimLook(0.5))
    assert look.interval(0.95) == one.interval(0.975)
    assert look.unseen(0.95) == one.unseen(0.975)
    assert look.total_variation(0.9) == one.total_variation(0.95)
    assert judge(look, 0.2).upper > judge(one, 0.2).upper
    assert Estimate(one.draws, InterimLook(0.5, "why")).rows()[-1] == ("stopped", "why")


def test_rounding():
    assert [rounded(x) for x in (7.2, 12.1, 123.0, 1901.0)] == [8, 13, 130, 2000]
