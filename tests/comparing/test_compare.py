"""Several targets against one gold standard: the same numbers as alone, one table, verdicts."""

import csv
import io
import re
import sys
import threading
from importlib import import_module
from typing import Any

import jax
import numpy as np
import pytest
from support.made import estimate_with
from support.pairs import KEY, NoisyGaussian, NumpyGaussian, arrays, gaussian
from support.plain import plain

import aide
from aide._core.types import TARGET
from aide.comparing.compare import compare_estimates
from aide.engine.runners.choose import identity_of
from aide.estimation.closeness import judge, metas_to_raise

GOLD = NoisyGaussian(0.3, 0.8, 0.5)
TARGETS = {
    "near": NoisyGaussian(0.2, 0.8, 0.5),
    "far": NoisyGaussian(2.0, 0.8, 0.5),
    "wide": gaussian(0.3, 2.4),
}
SIZES = {"num_gold": 200, "num_target": 150, "num_meta_gold": 2, "num_meta_target": 3}


@pytest.fixture(scope="module")
def found():
    return aide.compare(KEY, GOLD, TARGETS, tolerance=2.25, max_meta=1, **SIZES)


def test_results_are_those_of_lone_estimates_to_the_bit(found):
    assert list(found) == list(TARGETS)
    for name, target in TARGETS.items():
        alone = aide.estimate(KEY, GOLD, target, **SIZES)
        for one, two in zip(arrays(found[name].draws), arrays(alone.draws), strict=True):
            assert one.tobytes() == two.tobytes()
        assert found[name].value == alone.value


def test_a_gold_standard_nobody_can_recognise_is_compared_too():
    """Its runs are made again for every target: nobody can tell whether it stayed what it was."""
    sampler = NumpyGaussian()
    sampler.__dict__["hidden"] = threading.Lock()
    del sampler.aide_identity
    gold: Any = aide.PythonAlgorithm(sampler)
    assert identity_of(gold).unseen
    sizes = {"num_gold": 5, "num_target": 5}
    found = aide.compare(KEY, gold, {"a": gaussian(0.1, 1.0), "b": gold}, **sizes)
    alone = aide.estimate(KEY, gold, gaussian(0.1, 1.0), **sizes)
    assert found["a"].value == alone.value
    assert found["a"].draws.gold.values is not None


def test_the_table(found):
    lines = repr(found).splitlines()
    assert lines[0] == "3 targets against NoisyGaussian: 1 of 3 within 2.25 nats"
    assert lines[1].startswith("Gold standard: not tested")
    errors = ("means off by at most", "worst sd", "90% intervals hold")
    errors = (*errors, "any probability off by at most")
    titles = ("target", "divergence ≤ (nats)", *errors, "above best", "misses", "invents")
    assert found.grid().titles == (*titles, "looseness", "verdict")
    near, far, wide = (next(a for a in lines if a.startswith(f"  {name} ")) for name in found)
    assert near.endswith("passed")
    assert f"failed: ≥ {judge(found['far'], 2.25).lower:.2g}" in far
    assert wide.endswith("undecided")
    (advice,) = [line for line in lines if line.startswith("  to decide ")]
    more = re.search(r"wide: raise num_meta_gold to about ([\d,]+)\.", advice)
    assert more is not None
    assert int(more[1].replace(",", "")) > SIZES["num_meta_gold"]
    assert found.outcomes == {"near": "passed", "far": "failed", "wide": "undecided"}
    assert "All targets: Two estimates of the log density of the gold" in repr(found)


def test_usual_diagnostics_stand_beside_the_divergence():
    """k-hat is ArviZ's, of the weights at the target's outputs; R-hat and ESS those of draws."""
    arviz = import_module("arviz")
    draws = np.random.default_rng(0).normal(size=(2, 100))
    gold = gaussian(0.0, 1.0)
    chains = aide.ReferenceDraws(draws, gold.log_density, has_chains=True)
    targets = {"narrow": gaussian(0.0, 0.6), "same": gold, "draws": chains}
    found = aide.compare(KEY, gold, targets, num_gold=50, num_target=200)
    by_name = {record["target"]: record for record in found.records()}
    narrow, same, listed = (by_name[name] for name in targets)
    side = found["narrow"].draws.target
    expected = arviz.psislw(side.cross[:, 0] - side.own[:, 0])[1]
    assert narrow["k_hat"] == pytest.approx(float(expected))
    assert same["k_hat"] is None
    assert narrow["rhat"] is None
    assert (listed["rhat"], listed["ess"]) == (chains.rhat, chains.effective_size)
    titles = found.grid().titles
    assert titles.index("k-hat") < titles.index("R-hat") < titles.index("ESS")


def test_records(found):
    records = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [record["target"] for record in records] == list(found.ranking)
    for record, name in zip(records, found.ranking, strict=True):
        estimate = found[name]
        assert float(record["value"]) == estimate.value
        assert (float(record["low"]), float(record["high"])) == estimate.interval()
        assert float(record["total_variation"]) == estimate.total_variation()
        assert record["verdict"] == found.outcomes[name]


def test_targets_are_ranked_and_differences_are_paired(found):
    values = [found[name].value for name in found.ranking]
    assert values == sorted(values)
    near, far = found["near"], found["far"]
    behind = found.difference("far", "near")
    assert behind.value == pytest.approx(far.value - near.value)
    apart = np.hypot(far.std_error, near.std_error)
    assert behind.std_error < apart  # the gold runs are the same
    paired = [far.terms.at(role) - near.terms.at(role) for role in (0, 1)]
    errors = [part.std(ddof=1) / np.sqrt(part.size) for part in paired]
    assert behind.std_error == pytest.approx(np.hypot(*errors))
    assert found.difference("far", "far").std_error == pytest.approx(0.0, abs=1e-7)


def test_meta_runs_are_raised_where_looseness_hides_the_answer():
    """Outputs are N(0.1, 1) in both: without looseness the divergence is 0.01."""
    gold, targets = plain(), {"loose": plain(0.1, 0.8, 0.6), "tight": plain(0.1)}
    sizes = {"num_gold": 100, "num_target": 100, "keep_values": False}
    before = aide.compare(KEY, gold, targets, tolerance=0.3, max_meta=1, **sizes)
    assert before.outcomes == {"loose": "undecided", "tight": "passed"}
    assert "loose: raise num_meta_target to about" in repr(before)
    after = aide.compare(KEY, gold, targets, tolerance=0.3, **sizes)
    assert after.outcomes == {"loose": "passed", "tight": "passed"}
    raised = after["loose"].draws.target.num_meta
    assert 10 < raised <= 30
    assert (
        f"loose: It was decided after raising num_meta_target from 1 to {raised}," in after.notes[0]
    )
    assert after["loose"].look.share == after["tight"].look.share == 0.5


LOOSE = {"loose": plain(0.1, 0.8, 0.6)}
SMALL = {"num_target": 60, "keep_values": False, "tolerance": 0.3}


def _raised(gold, **options):
    """M after the second look, and the M that the runs of the first look would have chosen."""
    found = aide.compare(KEY, gold, LOOSE, max_meta=1000, **SMALL, **options)
    first = aide.compare(KEY, gold, LOOSE, max_meta=1, **SMALL, **options)
    wanted = metas_to_raise(first["loose"], SMALL["tolerance"])
    return found["loose"].draws.target.num_meta, wanted.get(TARGET, 1)


def test_the_judged_runs_do_not_choose_m():
    """Other judged runs with the same key, the same M; the runs themselves would choose others."""
    found = [_raised(plain(), num_gold=60, first_run=100 * number) for number in range(3)]
    chosen, by_themselves = zip(*found, strict=True)
    assert len(set(chosen)) == 1
    assert chosen[0] > 1
    assert len(set(by_themselves)) > 1  # the control


@pytest.mark.full
def test_draws_of_a_list_that_are_judged_do_not_choose_m(monkeypatch):
    """The pilot takes draws after the judged ones; without any, M is the largest, by no choice."""
    module, begins = sys.modules["aide.comparing.compare"], []

    def spy(*call, **options):
        begins.append(options["first_run"])
        return aide.draw(*call, **options)

    monkeypatch.setattr(module, "draw", spy)
    stored, law = np.random.default_rng(0).normal(size=120), gaussian(0.0, 1.0)
    gold = aide.ReferenceDraws(stored, law.log_density, has_chains=False)
    chosen, by_itself = _raised(gold, num_gold=60)
    assert 1 < chosen < 1000
    assert begins == [60, 0]  # the pilot, then the second look
    chosen, by_itself = _raised(gold, num_gold=120)
    assert begins[2:] == [0]
    assert chosen == 1000 > by_itself


def test_bounds_at_different_meta_runs_are_ranked_where_all_have_them():
    """20 particles whose M was raised do not pass 100 particles whose M was not."""
    gold, targets = plain(), {"coarse": plain(0.1, 0.8, 0.6), "fine": plain(0.3)}
    sizes = {"num_gold": 100, "num_target": 100, "keep_values": False}
    once = aide.compare(KEY, gold, targets, tolerance=0.3, max_meta=1, **sizes)
    found = aide.compare(KEY, gold, targets, tolerance=0.3, **sizes)
    assert once.ranking == found.ranking == ("fine", "coarse")
    assert found["coarse"].value < found["fine"].value  # the order of what is shown, at M and 1
    assert found["coarse"].draws.target.num_meta > 1
    assert found.common_metas == (1, 1)
    behind = found.entries[1].behind
    assert behind is not None
    assert behind.value == pytest.approx(once.difference("coarse", "fine").value)
    assert "Targets are ranked by the bound at M = 1 of the target and 1 of the gold" in repr(found)
    assert "ranked by the bound at M" not in repr(once)


def test_two_sets_of_draws_have_no_number():
    """Both state the log joint: what differs is the draws, which `compare_draws` compares."""
    rng, law = np.random.default_rng(0), gaussian(0.0, 1.0)
    stored = [
        aide.ReferenceDraws(shift + rng.normal(size=200), law.log_density, has_chains=False)
        for shift in (0.0, 1.0)
    ]
    targets = {"other draws": stored[1], "fit": gaussian(0.3, 1.0)}
    found = aide.compare(KEY, stored[0], targets, tolerance=0.5, num_target=100)
    assert found.ranking == ("fit", "other draws")
    lines = repr(found).splitlines()
    [line] = [line for line in lines if line.startswith("  other draws ")]
    assert "± 0" not in line
    assert line.split()[2] == "–"
    assert "aide.compare_draws(gold, target)" in repr(found)
    record = found.records()[1]
    assert [record[name] for name in ("value", "std_error", "rank", "behind")] == [None] * 4
    alone = repr(found["other draws"])
    assert alone.startswith("No number: gold standard and target state the same density")
    assert aide.compare_draws(stored[0], stored[1]).is_different


def test_constants_that_are_unknown_leave_the_directions_out():
    noise = np.linspace(-1.0, 1.0, 60)
    unknown = compare_estimates({"a": estimate_with(noise, noise, (None, None))})
    assert "misses" not in repr(unknown)
    assert "verdict" not in repr(unknown).splitlines()[1]
    assert unknown.records()[0]["gold_to_target"] is None


def test_verdicts_hold_from_both_sides_or_not_at_all():
    noise = np.linspace(-1.0, 1.0, 500)
    near, far = (estimate_with(x + noise, x + noise) for x in (0.05, 3.0))
    assert judge(near, 1.0).outcome == "passed"
    assert judge(far, 1.0).outcome == "undecided"  # an upper bound alone shows no distance
    assert judge(far, 1.0).lacks.startswith("a lower bound needs the outputs")
    words = repr(compare_estimates({"far": far}, 1.0))
    assert "to decide       far: keep the outputs (keep_values=True)." in words
    blind = estimate_with(np.zeros(500), np.zeros(500))
    assert judge(blind, 1.0).outcome == "undecided"  # one density says nothing about two samplers
    words = repr(compare_estimates({"a": blind}, 1.0))
    assert "0 of 1 within 1 nat" in words
    assert "no number" in words
    assert "test the samplers against it with aide.check" in words


def test_what_cannot_be_done_is_said_at_once(tmp_path):
    with pytest.raises(ValueError, match="at least one algorithm, got an empty mapping"):
        aide.compare(KEY, GOLD, {})
    with pytest.raises(ValueError, match="tolerance must be a positive number of nats, got 0"):
        aide.compare(KEY, GOLD, TARGETS, tolerance=0)
    no_algorithm: Any = jax.random.normal
    with pytest.raises(TypeError, match=r"targets\['x'\] must be an inference algorithm"):
        aide.compare(KEY, GOLD, {"x": no_algorithm})
    with pytest.raises(ValueError, match="checkpoint must name a file for each of"):
        aide.compare(KEY, GOLD, TARGETS, checkpoint=tmp_path / "runs.nc")


def test_runs_are_added_to_each_target_until_its_goal_is_reached():
    gold, targets = plain(), {"near": plain(0.2), "far": plain(1.0)}
    found = aide.compare(KEY, gold, targets, until=0.05, num_meta_gold=1, num_meta_target=1)
    for name, target in targets.items():
        one = found[name]
        assert one.std_error <= 0.05
        sizes = [side.num_runs for side in one.draws.sides]
        alone = aide.estimate(KEY, gold, target, num_gold=sizes[0], num_target=sizes[1])
        assert one.value == alone.value  # the shared gold runs are those of the key
        assert one.look.share <= 1 / 2  # limits allow for further looks
    assert "standard error" in found.notes[0]


def test_a_verdict_may_be_the_goal_of_every_target():
    targets = {"near": plain(0.2), "far": plain(2.0)}
    found = aide.compare(KEY, plain(), targets, until=aide.estimation.Decided(0.5))
    assert found.outcomes == {"near": "passed", "far": "failed"}
    assert found.tolerance == 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"until": 0.05, "max_meta": 8}, "leave out max_meta"),
        ({"until": 0.05, "first_run": 3}, "leave out first_run"),
        ({"max_runs": 500}, "max_runs and max_seconds limit until"),
        ({"until": 0.05, "checkpoint": {"near": "a.nc"}}, "a file for each of"),
    ],
)
def test_until_refuses_what_it_plans_itself(settings, words):
    with pytest.raises(ValueError, match=words):
        aide.compare(KEY, plain(), {"near": plain(0.2), "far": plain(2.0)}, **settings)
