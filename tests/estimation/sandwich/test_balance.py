r"""The balancing identities hold exactly: every draw of a finite pair is listed, no sampling.

M = 1 and M > 1, own trace kept, constants Z other than 1, and supports that differ.
"""

import numpy as np
import pytest
from reference.finite_pair import GOLD, HOLES, TARGET, divergence, enumerate_pair
from scipy import special
from support.made import made_draws, with_log_z

import aide
from aide.estimation.interval import confidence_limit
from aide.estimation.sandwich.balance import (
    Integrands,
    LogRatio,
    balanced_limits,
    balanced_terms,
    bridge_failure,
    combine,
    log_ratio_of,
)
from aide.estimation.sandwich.inputs import find_inputs
from aide.estimation.terms import terms_of

METAS = [(1, 1), (2, 1), (1, 2), (2, 2)]
PAIRS = {"all": (GOLD, TARGET), "holes": (GOLD, HOLES), "holes in gold": (HOLES, TARGET)}
EXACT = 1e-12


@pytest.mark.parametrize("metas", METAS)
@pytest.mark.parametrize("name", PAIRS)
def test_bennetts_identity(name, metas):
    r"""$E_G[\sigma(-\ell) h] = E_T[\sigma(\ell) h]$ for functions of the output."""
    draws, at_gold, at_target = enumerate_pair(*PAIRS[name], metas)
    ratio = log_ratio_of(draws)
    assert ratio is not None
    assert at_gold.sum() == pytest.approx(1.0, abs=EXACT)
    for h in (np.ones(3), np.array([0.3, -2.0, 5.0])):
        left = at_gold @ (special.expit(-ratio.gold) * h[draws.gold.values])
        right = at_target @ (special.expit(ratio.target) * h[draws.target.values])
        assert left == pytest.approx(right, abs=EXACT)
        assert abs(left) > 0.1


@pytest.mark.parametrize("metas", METAS)
def test_the_balanced_terms_have_aides_mean(metas):
    """Whatever the coefficient; and AIDE's mean is above the divergence."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, metas)
    ratio = log_ratio_of(draws)
    assert ratio is not None
    plain = at_gold @ ratio.gold - at_target @ ratio.target
    values = Integrands(ratio.gold, -ratio.gold, ratio.target, -ratio.target)
    for coefficient in (0.0, 1.7):
        gold, target = combine(values, ratio, coefficient)
        assert at_gold @ gold + at_target @ target == pytest.approx(plain, abs=EXACT)
    assert plain > divergence(GOLD, TARGET) + 1e-3
    for found, expected in zip(balanced_terms(draws), combine(values, ratio, 0.0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=EXACT)
    unknown = balanced_terms(with_log_z(draws, (None, 0.0)))
    assert at_gold @ unknown[0] + at_target @ unknown[1] == pytest.approx(plain, abs=EXACT)


def test_the_identity_can_fail():
    """Controls: a wrong constant, and an own trace taken for a fresh one."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, (1, 1))
    ratio = log_ratio_of(draws)
    assert ratio is not None
    for wrong in (ratio.gold + 0.1, draws.gold.own[:, 1] - draws.gold.cross[:, 0] - 0.7):
        left, right = at_gold @ special.expit(-wrong), at_target @ special.expit(ratio.target)
        assert abs(left - right) > 1e-3


@pytest.mark.parametrize("metas", [(2, 2), (3, 2)])
def test_a_guess_from_other_traces_may_be_balanced(metas):
    """Functions of the output and of the guess of the balanced inputs, at both kinds of draws."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, metas)
    inputs = find_inputs(draws)[1]
    assert inputs.ratio is not None
    assert inputs.guess is not None
    h = lambda side, guess: np.sin(guess) + 0.2 * side.values
    left = at_gold @ (special.expit(-inputs.ratio.gold) * h(draws.gold, inputs.guess[0]))
    right = at_target @ (special.expit(inputs.ratio.target) * h(draws.target, inputs.guess[1]))
    assert left == pytest.approx(right, abs=EXACT)
    every = log_ratio_of(draws)  # control: all traces, the guess's own among them
    assert every is not None
    left = at_gold @ (special.expit(-every.gold) * h(draws.gold, inputs.guess[0]))
    right = at_target @ (special.expit(every.target) * h(draws.target, inputs.guess[1]))
    assert abs(left - right) > 1e-4


@pytest.mark.parametrize("index", [0, 1])
def test_given_the_output_the_guess_has_one_law(index):
    """Its conditional mean is the same at both kinds of draws; with the own trace it is not."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, (2, 2))
    guess = find_inputs(draws)[index].guess
    assert guess is not None
    own = draws.gold.own[:, 0] - draws.gold.cross[:, 0]
    for x in range(3):
        gold, target = draws.gold.values == x, draws.target.values == x
        means = [
            np.average(s[rows], weights=chance[rows])
            for s, rows, chance in (
                (guess[0], gold, at_gold),
                (guess[1], target, at_target),
                (own, gold, at_gold),
            )
        ]
        assert means[0] == pytest.approx(means[1], abs=EXACT)
        assert abs(means[2] - means[1]) > 1e-3


def test_spread_near_zero():
    """At D = 0.01 balanced terms are 10 times less noisy than plain ones."""
    draws = _draws(_gaussian_ratio(np.random.default_rng(1), 5000, 0.1))
    gold, target = balanced_terms(draws)
    plain = terms_of(draws)
    assert np.hypot(gold.std(), target.std()) < 0.1 * np.hypot(plain[0].std(), plain[1].std())


def test_limits_never_lie_beside_those_of_the_plain_terms():
    """Chance puts them side by side in some 5% of the replications; then they are made to touch."""
    rng, apart = np.random.default_rng(4), 0
    for _ in range(300):
        draws = _draws(_gaussian_ratio(rng, 100, 0.1))
        low, high = aide.estimation.Estimate(draws).interval()
        lower, upper = balanced_limits(draws, 0.95)
        assert lower <= max(high, 0.0)
        assert upper >= low
        untouched = [confidence_limit(balanced_terms(draws), level) for level in (0.025, 0.975)]
        apart += untouched[0] > high or untouched[1] < low
    assert apart > 3


def test_bennetts_identity_sees_a_wrong_constant():
    ratio = _gaussian_ratio(np.random.default_rng(2), 2000)
    assert bridge_failure(ratio) is None
    wrong = bridge_failure(LogRatio(ratio.gold + 0.3, ratio.target + 0.3))
    assert wrong is not None
    assert abs(wrong) > 0.1
    assert bridge_failure(_gaussian_ratio(np.random.default_rng(2), 100, 9.0)) is None
    assert bridge_failure(LogRatio(ratio.gold[:1], ratio.target)) is None


def _gaussian_ratio(rng, num, shift=0.7):
    l = lambda x: shift * (shift / 2 - x)  # noqa: E741
    return LogRatio(l(rng.normal(size=num)), l(shift + rng.normal(size=num)))


def _draws(ratio):
    gold = np.zeros((ratio.gold.size, 1)), -ratio.gold[:, None]
    target = np.zeros((ratio.target.size, 1)), ratio.target[:, None]
    return made_draws(gold, target, log_z=(0.0, 0.0))
