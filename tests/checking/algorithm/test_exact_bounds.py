"""The bounds behind every p-value, against enumeration of all outcomes."""

import itertools

import numpy as np
from scipy import special

from aide._core.exact_tests import (
    deviations,
    log_wealths,
    order_p_values,
    sign_p_value,
    wealth_p_value,
)
from aide.checking.algorithm.laws import Evidence
from aide.checking.algorithm.report import CheckReport
from aide.reporting.numbers import PASSED, UNDECIDED

NUM = 9
OUTCOMES = np.array(list(itertools.product([False, True], repeat=NUM)))


def largest_excess(p_values, chances):
    """The largest P(p <= a)/a over all levels a: at most 1 for a p-value."""
    order = np.argsort(p_values)
    return (np.cumsum(chances[order]) / p_values[order]).max()


def test_chernoffs_bound_is_a_p_value():
    """Also with rare large terms; and half of it, a wrong one, is not."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        gap = rng.normal(0, 3, NUM)
        size = rng.normal(size=NUM) * np.exp(2 * rng.normal(size=NUM))
        first, second = size * special.expit(-gap), -size * special.expit(gap)
        chances = np.where(OUTCOMES, special.expit(gap), special.expit(-gap)).prod(axis=1)
        p_values = []
        for outcome in OUTCOMES:
            seen, other = np.where(outcome, first, second), np.where(outcome, second, first)
            log_odds = np.where(outcome, gap, -gap)
            p_values += list(order_p_values(log_odds, seen[:, None], other[:, None]))
        p_values = np.array(p_values)
        assert largest_excess(p_values, chances) <= 1 + 1e-9
        assert largest_excess(p_values / 20, chances) > 1
        assert p_values.min() < 0.3


def test_signs_of_different_chances_have_a_p_value():
    rng = np.random.default_rng(4)
    for chance in (rng.random(NUM), rng.random(NUM) * 0.1):
        chances = np.where(OUTCOMES, chance, 1 - chance).prod(axis=1)
        p_values = np.array([sign_p_value(outcome, chance) for outcome in OUTCOMES])
        assert largest_excess(p_values, chances) <= 1 + 1e-9


def test_wealth_averages_at_most_one_however_rare_the_gains():
    """Gains of mean 1/2 that come once in `1/rare` runs, against a fair coin."""
    for rare in (0.5, 1e-2, 1e-6):
        values = [(0.5 / rare, rare * 0.5, 0.0), (0.5 / rare, rare * 0.5, 1.0)]
        values += [(0.0, (1 - rare) * 0.5, 0.0), (0.0, (1 - rare) * 0.5, 1.0)]
        total = 0.0
        for chosen in itertools.product(values, repeat=3):
            gains, chances, losses = np.array(chosen).T
            with np.errstate(divide="ignore"):
                (found,) = log_wealths(np.log(gains)[:, None], losses[:, None])
            total += chances.prod() * np.exp(found)
        assert abs(total - 1) < 1e-9
    assert wealth_p_value(-3.0) == 1.0
    assert abs(wealth_p_value(np.log(20.0)) - 0.05) < 1e-12


def test_an_impossible_order_is_a_proof_and_a_certain_one_says_nothing():
    one = np.ones((4, 1))
    assert order_p_values(np.full(4, -np.inf), one, 0 * one) == 0.0
    assert order_p_values(np.full(4, np.inf), one, -one) == 1.0
    assert deviations(np.full(4, np.inf), one, -one) == 0.0


def test_the_odds_of_a_pair_of_states():
    """Detailed balance gives the odds w(y) : w(x), and too much cannot arrive, from any start."""
    rng = np.random.default_rng(5)
    density = np.array([0.9, 0.09, 0.009, 0.001])
    start = rng.dirichlet(np.ones(4))
    accept = np.minimum(1.0, density[None] / density[:, None]) / 4
    kernel = accept + np.diag(1 - accept.sum(axis=1))
    weight = density / start
    flow = start[:, None] * kernel
    odds = weight[None] / (weight[:, None] + weight[None])
    np.testing.assert_allclose(flow / (flow + flow.T), odds, atol=1e-12)
    for cut in (0.01, 1.0, 100.0):
        damped = np.minimum(1.0, cut / weight)
        arrives = (density * damped) @ kernel * damped
        assert (arrives <= density * damped + 1e-15).all()


def test_the_advice_says_what_decides_where_few_runs_carry_the_mean() -> None:
    """Only where no law is broken, and the spread of xi is the reason."""
    right = Evidence(2, "as given", 0.5, "", 100)
    for doubt, p_value in ((None, 0.5), ("the integral of xi rests on 3 runs", 0.5), ("", 1e-9)):
        law = Evidence(1, "as given", p_value, "", 100, doubt=doubt)
        report = CheckReport("SMC", (right, law), 1e-4, 18_000)
        expected = doubt is not None and p_value == 0.5
        assert any("easier posterior" in text for text in report.advice) == expected
        assert report.verdict == ("failed" if p_value < 0.5 else UNDECIDED if expected else PASSED)
