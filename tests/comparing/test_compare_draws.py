"""Two sets of draws without densities: claims, words, refusals."""

import json

import numpy as np
import pytest
from support.chains import ar1, standard_log_joint

import aide
from aide.comparing import DrawsDifference


@pytest.fixture(scope="module")
def apart() -> DrawsDifference:
    """The second of three coordinates is shifted by two standard deviations."""
    rng = np.random.default_rng(0)
    a, b = ({"theta": rng.normal(size=(200, 2)), "tau": rng.normal(size=200)} for _ in range(2))
    b["theta"][:, 1] += 2.0
    return aide.compare_draws(a, b, names=("NUTS", "ADVI"))


def test_a_difference_is_found_and_named(apart: DrawsDifference) -> None:
    """In nats, below the true 4; by the coordinate that is shifted and by no other."""
    assert 0.5 < apart.lower < 4.0
    assert 0.2 < apart.lower_a_to_b < 2.0
    assert 0.2 < apart.lower_b_to_a < 2.0
    assert [test.function for test in apart.telling] == ["location of theta[1]"]
    assert apart.headline.startswith("NUTS and ADVI are at least")
    assert "seen in  " in repr(apart)
    assert apart.verdict == "failed"


def test_it_is_a_result(apart: DrawsDifference) -> None:
    """JSON, CSV, HTML and a plot."""
    assert json.loads(apart.to_json())["numbers"]["lower"] == pytest.approx(apart.lower)
    assert apart.to_csv().count("\n") >= len(apart.tests)
    assert "theta[1]" in apart._repr_html_()
    assert len(apart.plot().axes) == 2


def test_equal_sets_are_not_told_apart() -> None:
    """Slow chains neither, which look different if taken as independent; and what could be seen."""
    rng = np.random.default_rng(1)
    a, b = (ar1(rng, 2, 400, 0.9, 2) for _ in range(2))
    found = aide.compare_draws(a, b)
    assert not found.is_different
    assert found.lower == 0.0
    assert found.headline.startswith("No difference between a and b was seen")
    assert 0.1 < found.smallest < 2.0
    assert found.a.effective < 150


def test_reference_draws_can_be_split() -> None:
    """The halves of a gold standard; halves that drift are told apart."""
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(2, 200, 1))
    gold = aide.ReferenceDraws(draws, standard_log_joint, has_chains=True)
    assert not aide.compare_draws(*gold.halves()).is_different
    draws[:, 100:] += 1.5
    drifted = aide.ReferenceDraws(draws, standard_log_joint, has_chains=True)
    assert aide.compare_draws(*drifted.halves()).is_different


def test_heavy_tails_and_constants_do_no_harm() -> None:
    """Cauchy draws, a coordinate that never moves, and one that differs by a constant."""
    rng = np.random.default_rng(3)
    a, b = (
        np.column_stack([rng.standard_cauchy(100), np.ones(100), np.full(100, c)])
        for c in (0.0, 1.0)
    )
    found = aide.compare_draws(a, b)
    assert found.telling[0].function == "location of x[2]"
    assert not aide.compare_draws(a[:, :2], b[:, :2]).is_different


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros((4, 100)), np.zeros((4, 100)), "at least 50 draws, got 4.*has_chains"),
        ({"x": np.zeros(100)}, {"y": np.zeros(100)}, "same variables"),
        (np.zeros((100, 2)), np.zeros((100, 3)), "same coordinates.*x\\[2\\]"),
        (np.full(100, np.nan), np.zeros(100), "a: draws has 100 entries"),
    ],
)
def test_refusals(a: object, b: object, words: str) -> None:
    """Each says what to do."""
    with pytest.raises(ValueError, match=words):
        aide.compare_draws(a, b)


@pytest.mark.full
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_level(rho: float) -> None:
    """At most 5% claims among equal sets, by chance no more than 11 of 100."""
    claims = 0
    for seed in range(100):
        rng = np.random.default_rng((4, seed))
        claims += aide.compare_draws(
            ar1(rng, 2, 300, rho, 3), ar1(rng, 2, 300, rho, 3)
        ).is_different
    assert claims <= 11
