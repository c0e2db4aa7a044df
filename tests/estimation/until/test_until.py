"""Runs are added until they suffice; limits allow for it; a call that goes on ends the same."""

import json

import numpy as np
import pytest
from support.pairs import KEY, arrays
from support.plain import plain

import aide
from aide._core.types import GOLD, TARGET
from aide.engine.pilot import Cost, PilotDraws, run_pilot
from aide.engine.stage import Sizes
from aide.estimation import Decided
from aide.estimation.until.goals import Limits, Shown, StandardError
from aide.estimation.until.plan import FEWEST_RUNS, MARGIN, allocate
from aide.estimation.until.until import estimate_until

NEAR, FAR = (plain(), plain(0.2)), (plain(), plain(2.0))


def test_a_standard_error_is_reached_by_looks_that_pay_for_themselves():
    found = aide.estimate(KEY, *NEAR, until=0.02)
    assert found.std_error <= 0.02
    assert found.look.share in (1 / 2, 1 / 6, 1 / 12)
    assert found.rows()[-1][0] == "stopped"
    gold, target = found.draws.sides
    same = aide.estimate(KEY, *NEAR, num_gold=gold.num_runs, num_target=target.num_runs)
    assert (
        same.value == found.value
    )  # the runs are those of the key; the pilot's are not among them
    low, high = same.interval()
    assert found.interval()[0] < low
    assert found.interval()[1] > high


@pytest.mark.full
def test_verdicts_from_both_sides():
    assert aide.estimate(KEY, *NEAR, until=Decided(0.2)).judge(0.2).outcome == "passed"
    assert aide.estimate(KEY, *FAR, until=Decided(0.2)).judge(0.2).outcome == "failed"
    above = estimate_until(KEY, *FAR, Shown(0.2), Limits())
    assert "is above 0.2" in above.look.words


def test_a_budget_ends_it_and_says_what_is_missing():
    found = aide.estimate(KEY, *NEAR, until=0.001, max_runs=500)
    assert sum(side.num_runs for side in found.draws.sides) <= 500 - 128
    assert "The budget is spent, the standard error is" in found.look.words
    assert "times as many runs would reach it" in found.look.words
    found = aide.estimate(KEY, *NEAR, until=Decided(0.0401), max_runs=500)
    assert "undecided at 0.0401 nats" in found.look.words


@pytest.mark.full
def test_a_stored_plan_makes_a_call_that_goes_on_end_the_same(tmp_path):
    whole = aide.estimate(KEY, *NEAR, until=0.02, checkpoint=tmp_path / "a.nc")
    plan = json.loads((tmp_path / "a.nc.plan.json").read_text())
    num = min(plan["plan"]["runs"])
    (tmp_path / "b.nc.plan.json").write_text(json.dumps(plan))
    metas = {"num_meta_gold": plan["plan"]["metas"][0], "num_meta_target": plan["plan"]["metas"][1]}
    sizes = {"num_gold": num // 2, "num_target": num // 3}  # as a kill would leave it
    aide.draw(KEY, *NEAR, checkpoint=tmp_path / "b.nc", **sizes, **metas)
    again = aide.estimate(KEY, *NEAR, until=0.02, checkpoint=tmp_path / "b.nc")
    for one, two in zip(arrays(whole.draws), arrays(again.draws), strict=True):
        assert one.tobytes() == two.tobytes()
    with pytest.raises(ValueError, match="is the plan of another call"):
        aide.estimate(KEY, *NEAR, until=0.03, checkpoint=tmp_path / "b.nc")
    with pytest.raises(ValueError, match="is the plan of another call"):
        aide.estimate(KEY, NEAR[0], plain(0.21), until=0.02, checkpoint=tmp_path / "b.nc")


def test_runs_are_divided_by_variance_and_cost():
    sizes: Sizes = {"num_gold": 64, "num_target": 64}
    drawn = run_pilot(KEY, plain(), plain(0.5, 0.0, 2.0), sizes).draws
    pilot = PilotDraws(drawn, (Cost(1.0, 0.0), Cost(4.0, 0.0)), None)
    plan = allocate(pilot, StandardError(0.05), (1, 1))
    terms = aide.summarise(drawn).terms
    variances = [terms.at(role).var(ddof=1) for role in (GOLD, TARGET)]
    total = np.sqrt(variances[0]) + 2 * np.sqrt(variances[1])
    wanted = np.sqrt(np.array(variances) / [1.0, 4.0]) * total / 0.05**2
    assert plan.runs == pytest.approx(np.maximum(MARGIN * wanted, FEWEST_RUNS), abs=1.0)
    reached = variances[0] / wanted[0] + variances[1] / wanted[1]
    assert reached == pytest.approx(0.05**2)
    assert plan.seconds == (1.0, 4.0)


def test_what_cannot_be_done_is_said_at_once():
    with pytest.raises(ValueError, match="until must be a standard error in nats"):
        aide.estimate(KEY, *NEAR, until=-1.0)
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        aide.estimate(KEY, *NEAR, until=Decided(0.0))
    with pytest.raises(ValueError, match="max_runs must be an integer of at least 1, got 0"):
        aide.estimate(KEY, *NEAR, until=0.1, max_runs=0)
    with pytest.raises(ValueError, match="leave out first_run"):
        aide.estimate(KEY, *NEAR, until=0.1, first_run=5)
    with pytest.raises(ValueError, match="max_runs and max_seconds limit until"):
        aide.estimate(KEY, *NEAR, max_runs=10)
