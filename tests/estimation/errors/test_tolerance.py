"""Tolerances in terms of errors: how they are written, and verdicts beside known truths."""

import numpy as np
import pytest
from support.pairs import KEY, gaussian, run

import aide
from aide.estimation import Decided, ErrorTolerance, NotWithin
from aide.estimation.errors.tolerance import as_tolerance, tolerance_words


def test_how_tolerances_are_written():
    wanted = ErrorTolerance(0.1, 0.1, 0.05)
    text = "means 0.1 sd, sds 10%, probabilities 0.05"
    assert as_tolerance(text) == wanted
    assert as_tolerance("mean 0.1 sds,sd 0.1, probability 5%") == wanted
    assert as_tolerance({"means": 0.1, "sds": 0.1, "probabilities": 0.05}) == wanted
    assert as_tolerance(wanted) is wanted
    assert str(wanted) == text
    assert as_tolerance("0.5 nats") == as_tolerance("0.5") == as_tolerance(0.5) == 0.5
    assert tolerance_words(0.5) == "0.5 nats"
    assert as_tolerance("sds 20%") == ErrorTolerance(sds=0.2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("means 10%", "means are in sds"),
        ("sds 0.1 sd", "shares or %"),
        ("bias 0.1", "tolerance must be like"),
        ("means 1.2.3 sd", "is no number"),
        ("sds 300%", "above 0 and below 1"),
        (-1.0, "positive number of nats"),
        ("-2", "positive number of nats"),
        ({"mean": 0.1}, "knows means, sds and probabilities"),
        (ErrorTolerance(), "must limit something"),
    ],
)
def test_bad_tolerances_are_named(given, words):
    with pytest.raises(ValueError, match=words):
        as_tolerance(given)


@pytest.fixture(scope="module")
def estimate():
    """The target's mean is 0.2 gold sds off, its sd 10% too large."""
    return run(gaussian(0.0, 1.0), gaussian(0.2, 1.1), 1000, 1000)


@pytest.mark.parametrize(
    ("tolerance", "outcome"),
    [
        ("means 0.4 sd", "passed"),
        ("means 0.05 sd", "failed"),
        ("means 0.2 sd", "undecided"),
        ("sds 30%", "passed"),
        ("sds 1%", "failed"),
        ("sds 10%", "undecided"),
        ("means 0.4 sd, sds 30%", "passed"),
        ("means 0.4 sd, sds 1%", "failed"),
        ("means 0.4 sd, sds 10%", "undecided"),
        ("probabilities 0.2", "passed"),
        ("probabilities 0.01", "failed"),
        ("means 0.4 sd, probabilities 0.09", "undecided"),
    ],
)
def test_verdicts(estimate, tolerance, outcome):
    found = estimate.judge(tolerance)
    assert found.outcome == outcome
    assert "(95%)" in found.limits
    if outcome == "passed":
        assert estimate.require(tolerance) is estimate
    else:
        words = {"failed": "too far away", "undecided": "Undecided: "}[outcome]
        with pytest.raises(NotWithin, match=words):
            estimate.require(tolerance)


def test_remedies_name_a_number(estimate):
    found = estimate.judge("means 0.21 sd")
    assert found.outcome == "undecided"
    assert "raise num_gold and num_target to about" in found.remedy
    loose = estimate.judge("means 0.4 sd, probabilities 0.08")
    assert "raise M, or leave probabilities out" in loose.remedy


def test_compare_takes_them():
    targets = {"near": gaussian(0.02, 1.0), "far": gaussian(0.6, 1.4)}
    tolerance = "means 0.1 sd, sds 10%"
    sizes = {"num_gold": 400, "num_target": 400}
    found = aide.compare(KEY, gaussian(0.0, 1.0), targets, tolerance=tolerance, **sizes)
    assert found.outcomes == {"near": "passed", "far": "failed"}
    assert found.verdict == "failed"
    assert "1 of 2 within means 0.1 sd, sds 10%" in repr(found)
    assert [record["verdict"] for record in found.records()] == ["passed", "failed"]
    found.to_json()
    found.plot()
    with pytest.raises(ValueError, match="need the outputs"):
        aide.compare(
            KEY, gaussian(0, 1.0), targets, tolerance=tolerance, keep_values=False, **sizes
        )


def test_runs_are_added_until_errors_are_decided():
    goal = Decided("means 0.1 sd")
    found = aide.estimate(KEY, gaussian(0.0, 1.0), gaussian(0.05, 1.2), until=goal)
    assert "Errors were shown to be within means 0.1 sd" in found.look.words
    assert found.judge("means 0.1 sd").outcome == "passed"
    assert np.isfinite(found.value)
