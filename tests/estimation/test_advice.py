r"""Advice about M: what it promises is compared with what happens when it is followed.

Actual falls come from the same runs, given more meta-inference, so that differences are not noise.
"""

import math

import jax
import numpy as np
import pytest
from support.made import Gaussian, made_draws, make_draws, swapped, with_tables
from support.pairs import HMM, NoisyGaussian, gaussian, run

import aide
from aide._core.types import GOLD, TARGET
from aide.estimation.looseness import MOST_META, find_advice, predict_falls
from aide.problems import LinearRegression

LARGE = 100


def _fewer(draws: aide.engine.Draws, num_meta: int) -> aide.engine.Draws:
    """The same runs with a smaller M of the target."""
    fewer = with_tables(draws, GOLD, draws.gold.own, draws.gold.cross[:, :num_meta])
    fewer = with_tables(fewer, TARGET, draws.target.own[:, : num_meta + 1], draws.target.cross)
    return fewer.with_num_meta(TARGET, num_meta)


def _noisy(slope, dimension):
    pair = Gaussian(0.0, 1.0, 0.0, dimension), Gaussian(0.3, 1.0, slope, dimension)
    return make_draws(np.random.default_rng(0), *pair, (2000, 2000), (1, LARGE))


def _drawn(gold, target):
    return aide.draw(
        jax.random.key(2), gold, target, num_gold=600, num_target=600, num_meta_target=LARGE
    )


def _regression():
    problem = LinearRegression((-2.0, 1.0, 2.0), (-1.0, 0.5, 2.5), 0.8, 1.5)
    return problem.posterior(), aide.sir(problem.prior(), problem.log_joint, num_particles=5)


CASES = {
    "slope 0.5": lambda: _noisy(0.5, 1),
    "slope 1": lambda: _noisy(1.0, 1),
    "10-D": lambda: _noisy(0.5, 10),
    "SIR": lambda: _drawn(*_regression()),
    "filter": lambda: _drawn(HMM.posterior(), aide.ParticleFilter(HMM.state_space(), 3)),
}


NAMES = [pytest.param(n, marks=pytest.mark.full) if n == "filter" else n for n in CASES]


@pytest.fixture(scope="module", params=NAMES)
def drawn(request):
    return CASES[request.param]()


def _actual(drawn, now, later):
    curve = aide.estimation.Estimate(drawn).meta_curve("target").value
    return curve[now - 1] - curve[later - 1]


@pytest.mark.parametrize("now", [3, pytest.param(10, marks=pytest.mark.full)])
def test_predictions_come_true(drawn, now):
    """Within a third of the actual fall (or two of its standard errors), for M up to 100."""
    predicted = predict_falls(_fewer(drawn, now), TARGET, LARGE)
    assert predicted is not None
    falls, _, relative = predicted
    for later in (2 * now, 5 * now, LARGE):
        fall, actual = falls[later - 1], _actual(drawn, now, later)
        assert abs(fall - actual) < actual / 3 + 2 * relative * fall


def test_predictions_from_a_single_meta_run(drawn):
    """With M = 1 nothing is known about the other's outputs: right up to a factor of two."""
    predicted = predict_falls(_fewer(drawn, 1), TARGET, LARGE)
    assert predicted is not None
    for later in (2, 5, LARGE):
        assert 0.5 < predicted[0][later - 1] / _actual(drawn, 1, later) < 2.0


def test_a_naive_prediction_is_rejected(drawn):
    """Control: "doubling M removes what the meter shows" fails the test that ours passes."""
    gap = aide.estimation.Estimate(_fewer(drawn, 3)).looseness.target
    assert gap is not None
    actual = _actual(drawn, 3, 6)
    assert abs(gap.value - actual) > actual / 3 + 2 * gap.std_error


def test_predictions_stay_within_the_meter(drawn):
    for now in (1, 4):
        fewer = _fewer(drawn, now)
        predicted = predict_falls(fewer, TARGET, 1000)
        assert predicted is not None
        falls = predicted[0]
        assert (falls[:now] == 0.0).all()
        assert (np.diff(falls[now - 1 :]) >= -1e-3 * falls[-1]).all()
        gap = aide.estimation.Estimate(fewer).looseness.target
        assert gap is not None
        assert falls.max() <= gap.value


def test_advice_in_words():
    result = aide.estimation.Estimate(_fewer(_noisy(1.0, 1), 1))
    [advice] = result.advice
    assert advice.role is TARGET
    assert 5 <= advice.num_meta <= 30
    words = f"Raise num_meta_target, say to {advice.num_meta}: the bound would fall."
    assert f"{words}\n" in repr(result)  # how far is a forecast, and not printed
    other = aide.estimation.Estimate(swapped(result.draws))
    assert "Raise num_meta_gold, say to" in repr(other)


def test_hopeless_cases_say_so():
    """A gap of 400 nats is not a matter of M."""
    gap = 400.0 + 20.0 * np.random.default_rng(0).normal(size=200)
    own = np.stack([np.zeros(200), -gap], axis=1)
    target = own, np.full((200, 1), -250.0)
    gold = np.zeros((200, 2)), np.full((200, 1), -200.0)
    result = aide.estimation.Estimate(made_draws(gold, target))
    [advice] = result.advice
    assert advice.num_meta <= MOST_META
    assert advice.fall.value < 0.5 * 400.0
    assert advice.remaining > 0.5 * 400.0
    assert "Improve meta-inference of the target" in repr(result)
    assert "aise num_meta" not in repr(result)


def test_no_advice_where_it_would_not_matter():
    assert run(gaussian(0.1, 0.7), gaussian(0.3, 1.3)).advice == ()
    pair = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
    assert run(*pair, measure_looseness=False).advice == ()
    assert run(*pair, 1, 1).advice == ()
    far = make_draws(np.random.default_rng(1), Gaussian(0, 1), Gaussian(9, 1, 0.2), (300, 300))
    assert aide.estimation.Estimate(far).advice == ()  # a few hundredths of 80 nats
    infinite = with_tables(far, TARGET, far.target.own.copy(), far.target.cross)
    infinite.target.own[0, 1] = -math.inf
    assert find_advice(infinite, 1.0, 0.1) == ()
