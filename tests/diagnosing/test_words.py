"""The sentences of a diagnosis, on made-up steps."""

import json

import numpy as np
import pytest

from aide.diagnosing import Diagnosis, StepDiagnosis


def made(acceptance, one_ancestor=None, log_evidence=None, num_particles=10):
    """A diagnosis with these shares, at temperatures 0.1, 0.2 and so on."""
    alone = one_ancestor or [0.0] * len(acceptance)
    steps = tuple(
        StepDiagnosis(1 + t, 0.1 * (1 + t), share, 0.9, 5.0, alone[t], 0.8)
        for t, share in enumerate(acceptance)
    )
    log_evidence = np.zeros(4) if log_evidence is None else np.asarray(log_evidence, float)
    return Diagnosis("made up", num_particles, 4, steps, log_evidence)


def test_nothing_to_say():
    found = made([0.9, 0.15, 0.5])
    assert found.notes == ()
    assert found.verdict is None
    assert found.headline == "made up: no problem was seen in 4 runs observed step by step"


def test_stretches_of_rejections():
    found = made([0.9, 0.1, 0.2, 0.06, 0.5, 0.5, 0.5, 0.5, 0.02])
    first, second = found.notes
    assert first.startswith(
        "The kernel accepts 8.0% of its proposals at temperatures 0.2 to 0.4 (steps 2 to 4): take"
    )
    assert "accepts 2.0% of its proposals at temperature 0.9 (step 9)" in second
    assert found.verdict == "undecided"
    assert "2 problems were seen" in found.headline


def test_one_ancestor_counts_up_to_the_end():
    (note,) = made([0.5] * 4, [0.0, 0.75, 0.75, 1.0]).notes
    assert note.startswith(
        "From step 2 on all particles descend from one ancestor (at the end in 4 of 4"
    )
    assert made([0.5] * 4, [0.0, 1.0, 1.0, 0.5]).notes == ()


@pytest.mark.parametrize(
    ("log_evidence", "words"),
    [
        ([0.0, 1.0, 2.0, 3.0], "Log evidence varies by 1.3 nats between runs"),
        ([0.0, -np.inf, 2.0, 3.0], "In 1 of 4 runs all weights are zero"),
    ],
)
def test_an_evidence_that_scatters(log_evidence, words):
    (note,) = made([0.5], log_evidence=log_evidence).notes
    assert note.startswith(words)
    assert made([0.5], log_evidence=[0.0, 0.5, 1.0, 1.5]).notes == ()


def test_it_is_a_result_like_the_others():
    found = made([0.9, 0.1] * 20)
    assert len(found.grid().lines) == 12
    assert len(found.records()) == 40
    data = json.loads(found.to_json())
    assert data["records"][1]["acceptance"] == 0.1
    assert data["numbers"]["scatter"] == 0.0
    assert found.to_csv().splitlines()[0].startswith("step,temperature,acceptance")
    figure = found.plot()
    assert len(figure.axes) == 4
    assert "jump" in repr(found)
