"""Draws and a log density: false alarms at any tail and edge, and what a pass is worth."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from support.score_laws import LAWS, log_gamma, moves_of

import aide
from aide.algorithms.score_check import balance_tests

LEVEL = 1e-2


INDEPENDENT = [name for name in LAWS if name != "AR(1) chain"]


@pytest.mark.parametrize("name", INDEPENDENT)
@pytest.mark.parametrize("num", [100, 500])
def test_the_stated_rate_holds(name: str, num: int) -> None:
    """At 1% for each of 2 tests: of 1,000 right pairs at most 36 are rejected (20 + 3.6 sd)."""
    sample, log_density = LAWS[name]
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(1000):
        tests = balance_tests(moves_of(sample(rng, (num,)), log_density), ["x"])
        rejected += min(test.p_value for test in tests) < LEVEL
    assert rejected <= 36


def test_the_score_itself_has_no_such_rate() -> None:
    """Student's t of the score of log-Gamma(0.1), whose mean is 0: a control."""
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(1000):
        score = 0.1 - np.exp(log_gamma(rng, (100,)))
        t = score.mean() / (score.std(ddof=1) / 10)
        rejected += 2 * special.stdtr(99, -abs(t)) < LEVEL
    assert rejected > 36


def test_a_pass_says_what_would_have_been_seen() -> None:
    """A temperature of 1.1 is below that of 500 draws and above that of 20,000, which find it."""
    log_joint = lambda x: -0.5 * jnp.sum(x**2)
    rng = np.random.default_rng(2)
    few, many = (
        aide.ReferenceDraws(rng.normal(size=(num, 2)), log_joint, has_chains=False).score_check()
        for num in (500, 20_000)
    )
    assert few.smallest is not None
    assert many.smallest is not None
    assert few.smallest.temperature > 1.15
    assert 1.03 < many.smallest.temperature < 1.1
    assert 0.03 < many.smallest.shift < 0.1 < few.smallest.shift < 0.4
    text = " ".join(repr(few).split())
    assert "In 4 of 5 cases this check would have seen a factor of 1." in text
    hot = np.sqrt(1.1) * rng.normal(size=(20_000, 2))
    found = aide.ReferenceDraws(hot, log_joint, has_chains=False).score_check()
    assert found.verdict == "failed"
    assert found.worst[0].coordinate == "all coordinates"


def test_strongly_dependent_coordinates_get_shorter_moves() -> None:
    """A temperature is seen where coordinates are nearly determined by each other."""
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky([[1.0, 0.99], [0.99, 1.0]])
    precision = jnp.asarray(np.linalg.inv(root @ root.T))
    log_joint = lambda x: -0.5 * x @ precision @ x
    x = rng.normal(size=(4000, 2)) @ root.T
    right = aide.ReferenceDraws(x, log_joint, has_chains=False).score_check()
    assert right.passed
    assert right.smallest is not None
    assert right.smallest.temperature < 1.2
    wrong = aide.ReferenceDraws(np.sqrt(1.3) * x, log_joint, has_chains=False)
    assert not wrong.score_check().passed
