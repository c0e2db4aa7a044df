"""Estimates say how their gold standard was made and tested, or that it was not."""

import dataclasses
from typing import Any, cast

import jax
import numpy as np
import pytest
from support.made import estimate_with
from support.results import RECORD

import aide
from aide._core.algorithm import Aside
from aide.auditing.result import Audit
from aide.engine.programs.programs import Program
from aide.engine.runners.choose import identity_of
from aide.gold_standards.record import Agreement
from aide.gold_standards.result import GoldStandard, Making
from aide.problems.distributions import Normal

KEY, START = jax.random.key(0), Normal(0.0, 2.0)
TARGET = aide.Tractable.of(Normal(0.1, 1.0))
RUNS = {"num_gold": 4, "num_target": 4, "progress": False}


def log_joint(x):
    return START.log_prob(x) + Normal(x, 1.0).log_prob(0.3)


PLAIN = aide.sir(START, log_joint, num_particles=2)


def made(record=RECORD, rival=None):
    return GoldStandard(PLAIN, Aside(Making(record, rival)))


def audit_of(gold):
    return Audit((), None, 0.5, (), "any", identity_of(gold))


def gold_rows(estimate):
    return [text for name, text in estimate.rows() if name == "gold"]


def test_asides_play_no_part():
    """Neither in identities nor in what is compiled; all have one structure."""
    one, other = made(), made(dataclasses.replace(RECORD, title="another"), rival=PLAIN)
    assert identity_of(one) == identity_of(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(jax.tree.structure(one)) == hash(jax.tree.structure(other))
    assert jax.tree.leaves(Aside("anything")) == []
    kept = jax.tree.map(lambda leaf: leaf, one)
    assert kept.record is one.record
    assert identity_of(one) == identity_of(PLAIN)  # it adds words, and computes the same
    assert identity_of(one) != identity_of(aide.sir(START, log_joint, num_particles=3))


def test_estimates_state_where_their_gold_standard_comes_from(tmp_path):
    plain = estimate_with([0.1, 0.2, 0.3], [0.0, 0.2, 0.4])
    assert gold_rows(plain) == [
        "It was not audited; aide.audit(key, gold) compares it with versions of itself."
    ]
    exact = aide.estimate(KEY, TARGET, TARGET, audit=None, **RUNS)
    assert gold_rows(exact) == []  # a density that is taken as exact
    (text,) = gold_rows(aide.estimate(KEY, TARGET, TARGET, audit=audit_of(TARGET), **RUNS))
    assert text.startswith("audit ")
    assert text.endswith(" at 0.5 nats")
    gold = GoldStandard(TARGET, Aside(Making(RECORD, None)))
    both = aide.estimate(KEY, gold, TARGET, audit=audit_of(gold), **RUNS)
    (text,) = gold_rows(both)
    assert text.startswith("made by aide.gold_standard: looseness 0.020 ± 0.010 nats; agrees with")
    assert "; audit " in text
    aide.engine.save(both.draws, tmp_path / "draws.nc")
    assert gold_rows(aide.summarise(aide.engine.load(tmp_path / "draws.nc"))) == [text]


WRONG = dataclasses.replace(
    RECORD,
    looseness=(3.0, 0.1),
    agreements=(Agreement("itself at half the budget", 4.0, 0.2, 4.5, "failed"),),
)


def test_every_table_says_in_its_head_how_far_its_gold_standard_can_be_trusted(tmp_path):
    """A wide tolerance makes no gold standard right; one that passed is not called failed."""
    sweep = {"settings": [{"num_particles": 2}], "tolerance": 9.0}
    for record, outcome in ((RECORD, "passed"), (WRONG, "failed")):
        gold = GoldStandard(TARGET, Aside(Making(record, None)))
        table = aide.compare(KEY, gold, {"fit": PLAIN}, tolerance=9.0, **RUNS)
        swept = aide.sweep(KEY, gold, PLAIN, **sweep, **RUNS)
        tuned = aide.tune(KEY, gold, PLAIN, **sweep, progress=False, max_runs=100)
        for found in (table, swept, tuned):
            head = " ".join(repr(found).splitlines()[1:6])
            assert f"Gold standard {outcome}" in head
            assert ("its looseness is 3.00 ± 0.10 nats, 0.05 were asked for" in head) == (
                outcome == "failed"
            )
            assert found.to_dict()["head"][0].startswith(f"Gold standard {outcome}")
            assert found.numbers()["gold_trust"] == outcome
            assert f"Gold standard {outcome}" in found._repr_html_()
        assert ("of a gold standard that failed" in table.headline) == (outcome == "failed")
        alone = table["fit"]
        assert ("disagrees" in repr(alone)) == (outcome == "failed")
        aide.engine.save(alone.draws, tmp_path / f"{outcome}.nc")
        again = aide.summarise(aide.engine.load(tmp_path / f"{outcome}.nc"))
        assert again.trust == alone.trust
    untested = aide.compare(KEY, PLAIN, {"fit": PLAIN}, **RUNS)
    assert repr(untested).splitlines()[1].startswith("Gold standard: not tested")


def test_audits_of_something_else_are_refused_before_anything_runs():
    other = aide.sir(START, log_joint, num_particles=3)
    with pytest.raises(
        ValueError,
        match=r"another gold standard than SIR, 2; these parts differ: .*what simulate computes",
    ):
        aide.estimate(KEY, PLAIN, TARGET, audit=audit_of(other), num_gold=10**9)
    with pytest.raises(TypeError, match=r"what aide\.audit\(key, gold\) returns, got bool"):
        aide.estimate(KEY, PLAIN, TARGET, audit=cast(Any, True), num_gold=10**9)


def test_it_is_used_as_the_algorithm_it_holds():
    gold = made(rival=PLAIN)
    assert gold.num_particles == 2
    assert gold.log_z == PLAIN.log_z
    assert list(gold.rivals()) == ["itself from another start, tuned there"]
    assert getattr(gold.with_budget(2.0), "num_particles", None) == 4
    assert made().rivals() == {}
    assert identity_of(gold.with_start(Normal(1.0, 3.0))) == identity_of(
        PLAIN.with_start(Normal(1.0, 3.0))
    )


def test_a_version_that_could_not_run_is_not_one_that_agrees():
    """As where pilots from the wider start fail: flagged in the first line, with the reason."""
    missing = Agreement("itself from a wider start", np.inf, np.inf, np.inf, "undecided")
    record = dataclasses.replace(RECORD, agreements=(*RECORD.agreements, missing))
    gold = made(record)
    assert made().record.passed
    assert not record.passed
    assert gold.verdict == "undecided"
    assert repr(gold).startswith("Tempered SMC, made by hand: flagged as undecided (made in 1 s)")
    assert "It could not be compared with itself from a wider start." in repr(gold)
    assert gold.doubts == ("could not be compared with itself from a wider start",)


def test_what_it_says():
    gold = made()
    text = repr(gold)
    assert "Tempered SMC, made by hand: passed (made in 1 s)" in text
    assert "shown           Fresh runs have a looseness of 0.020 ± 0.010 nats" in text
    assert "agrees with itself at half the budget" in text
    assert "not shown       A mode that no start and no pilot visited." in text
    assert gold.verdict == "passed"
    loose = made(dataclasses.replace(RECORD, looseness=(0.5, 0.1), remarks=("Raise it.",)))
    assert "where 0.05 were asked for" in repr(loose)
    assert "Raise it." in repr(loose)
    assert loose.verdict == "undecided"
    apart = dataclasses.replace(RECORD.agreements[0], outcome="failed")
    assert "disagrees with itself" in repr(made(dataclasses.replace(RECORD, agreements=(apart,))))
    assert gold.numbers()["evaluations_per_run"] == 100.0
    assert len(gold.records()) == 1
    figure = gold.plot()
    labels = [panel.get_ylabel() for panel in figure.axes]
    assert labels == ["temperature", "accepted", "ESS", "ancestors"]  # no jump is known
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [0.3])


def test_its_runs_share_the_programs_of_what_it_wraps(monkeypatch):
    sizes = []
    compile_once = Program._compile
    monkeypatch.setattr(
        Program, "_compile", lambda self, size: (sizes.append(size), compile_once(self, size))[1]
    )
    one = aide.estimate(KEY, PLAIN, TARGET, **RUNS)
    compiled = len(sizes)
    other = aide.estimate(KEY, made(), TARGET, **RUNS)
    assert other.value == one.value
    assert len(sizes) == compiled
