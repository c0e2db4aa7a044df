r"""The parts of the classifier's lower bound: valid for every $f$, tight for the log ratio."""

import jax.numpy as jnp
import numpy as np
import pytest
from reference.finite_pair import GOLD, TARGET, divergence, enumerate_pair
from support import Z_MAX, z_score
from support.made import Gaussian, make_draws, noisy_pair

from aide.estimation.sandwich.balance import LogRatio
from aide.estimation.sandwich.classifier import classify, find_features, fit_logits
from aide.estimation.sandwich.features import MOST_FEATURES, choose_features
from aide.estimation.sandwich.inputs import ClassifierInputs, find_inputs
from aide.estimation.sandwich.legendre import LimitGoal, make_bound
from aide.estimation.sandwich.lower_bound import lower_terms

GOAL = LimitGoal((500, 500), 0.975)
RATIO = np.log(GOLD.output / TARGET.output)


def _means(f, low, high):
    """Exact mean of the bound's terms for a function f of the output, plain and balanced."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, (1, 1))
    inputs = find_inputs(draws)[1]
    logits = f[draws.gold.values], f[draws.target.values]
    found = []
    for ratio in (None, inputs.ratio):
        bound = make_bound(logits, ratio, GOAL, low, high)
        gold, target = bound.terms(logits, ratio)
        found.append(float(at_gold @ gold + at_target @ target))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_no_function_exceeds_the_divergence(seed):
    f = np.random.default_rng(seed).normal(size=3) * 2
    for clip in (0.3, 2.0, 50.0):
        for mean in _means(f, -clip, clip):
            assert mean <= divergence(GOLD, TARGET) + 1e-12


def test_the_log_ratio_is_tight():
    """With the constants a = b = 1 it gives the divergence itself, plain and balanced alike."""
    draws, at_gold, at_target = enumerate_pair(GOLD, TARGET, (1, 1))
    ratio = find_inputs(draws)[1].ratio
    logits = RATIO[draws.gold.values], RATIO[draws.target.values]
    bound = make_bound(logits, None, GOAL, -50.0, 50.0)._replace(log_a=0.0, log_b=0.0)
    for which in (None, ratio):
        gold, target = bound.terms(logits, which)
        total = at_gold @ gold + at_target @ target
        assert total == pytest.approx(divergence(GOLD, TARGET), abs=1e-12)


def test_logistic_regression_finds_a_gaussian_log_ratio():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20_000), 0.5 + 1.3 * rng.normal(size=15_000)
    columns = lambda z: np.stack([z, z * z, np.zeros_like(z)], axis=1)
    zeros = np.zeros(20_000), np.zeros(15_000)
    loose, tight = fit_logits((columns(x), columns(y)), zeros, (1e-6, 1e3))
    grid = np.linspace(-2.0, 2.5, 10)
    truth = -0.5 * grid**2 + 0.5 * ((grid - 0.5) / 1.3) ** 2 + np.log(1.3)
    fitted = loose(columns(grid), np.zeros(10))
    np.testing.assert_allclose(fitted, truth, atol=0.15)
    assert np.abs(tight(columns(grid), np.zeros(10))).max() < 0.01
    exact = -0.5 * x**2 + 0.5 * ((x - 0.5) / 1.3) ** 2 + np.log(1.3)
    other = -0.5 * y**2 + 0.5 * ((y - 0.5) / 1.3) ** 2 + np.log(1.3)
    [kept] = fit_logits((columns(x), columns(y)), (exact, other), (1e3,))
    np.testing.assert_allclose(kept(columns(grid), truth), truth, atol=0.05)


def test_features_of_any_structure():
    rng = np.random.default_rng(0)
    values = {
        "path": rng.integers(0, 3, size=(200, 4)),
        "level": rng.normal(size=(200, 2)),
        "flag": rng.random(200) < 0.3,
        "big": rng.integers(0, 1000, size=200),
    }
    features = choose_features(values, 1000)
    rows = features(values)
    path = 4 * 2 + 3 * 4
    level, big = 2 + 2 + 1 + 5 * 2, 1 + 1 + 0 + 5
    assert rows.shape == (200, path + level + 1 + big)
    assert np.isfinite(rows).all()
    assert features({key: value[:1] for key, value in values.items()}).shape[0] == 1
    assert choose_features(values, 12)(values).shape == (200, 12)
    wide = rng.normal(size=(300, 200))
    assert choose_features(wide, 10_000)(wide[:5]).shape == (5, MOST_FEATURES)
    assert choose_features(wide, 0)(wide).shape == (300, 0)


def test_features_accept_odd_values():
    values = np.array([[np.inf, 1.0], [0.0, 1.0], [1.0, 1.0], [-np.inf, 1.0]] * 10)
    assert np.isfinite(choose_features(values, 100)(values)).all()
    assert np.isfinite(choose_features(jnp.zeros((40,)), 100)(jnp.ones((3,)))).all()


@pytest.mark.parametrize("metas", [(1, 1), (4, 3)])
def test_own_traces_stay_out_of_the_guess(metas):
    """Changing the own traces changes nothing the classifier sees; changing others does."""
    pair = Gaussian(0.0, 1.0, 0.5), Gaussian(0.4, 1.0, 0.5)
    draws = make_draws(np.random.default_rng(0), *pair, (60, 70), metas)
    before = [inputs.guess for inputs in find_inputs(draws)]
    draws.gold.own[:, 0] += 1.0
    draws.target.own[:, 0] -= 2.0
    after = [inputs.guess for inputs in find_inputs(draws)]
    for one, two in zip(before, after, strict=True):
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            np.testing.assert_array_equal(one[0], two[0])
            np.testing.assert_array_equal(one[1], two[1])
    assert before[0] is not None
    assert (before[1] is None) == (metas == (1, 1))  # with M = 1 the trace is needed to balance
    draws.gold.own[:, 1] += 1.0
    changed = find_inputs(draws)[0].guess
    assert changed is not None
    assert not np.allclose(before[0][0], changed[0])


def test_a_guess_that_is_infinite():
    """Outputs to which a pure draw gives no mass are features, not errors."""
    rng = np.random.default_rng(4)
    draws = make_draws(rng, *noisy_pair(1.0, 1, 0.3), (300, 300), (2, 2))
    draws.gold.cross[::7, :] = -np.inf
    draws.target.cross[::5, 1:] = -np.inf
    draws.target.own[::25, 1:] = -np.inf
    for inputs in find_inputs(draws):
        [logits] = classify(find_features(inputs, inputs, 25), inputs, inputs, (1e-2,))
        assert all(np.isfinite(part).all() for part in logits)
    assert np.isfinite(lower_terms(find_inputs(draws), 0.975).limit(0.975))


def _limits(guess_of, count=5):
    """Lower limits for an algorithm compared with itself, D = 0, with a guess of our choice."""
    found = []
    same = Gaussian(0.0, 1.0, 1.0)
    for seed in range(count):
        draws = make_draws(np.random.default_rng(seed), same, same, (200, 200))
        inputs = find_inputs(draws)[0]._replace(guess=guess_of(draws))
        found.append(lower_terms([inputs], 0.975).limit(0.975))
    return np.array(found)


@pytest.mark.full
def test_the_own_trace_in_the_guess_would_be_wrong():
    """Control: with it, the classifier tells an algorithm from itself, and "proves" D > 0."""
    own = lambda draws: (
        draws.gold.own[:, 0] - draws.gold.cross[:, 0],
        draws.target.cross[:, 0] - draws.target.own[:, 0],
    )
    assert np.mean(_limits(own) > 0) > 0.9
    assert np.mean(_limits(lambda draws: find_inputs(draws)[0].guess) > 0) < 0.3


def test_without_held_out_runs_the_bound_would_be_wrong():
    """Control: terms from the runs a classifier was trained on exceed a divergence of 0."""
    same = Gaussian(0.0, 1.0, 0.0, 5)
    train_rows = np.arange(600) < 300
    found: dict[str, list[float]] = {"seen": [], "held out": []}
    for seed in range(10):
        draws = make_draws(np.random.default_rng(seed), same, same, (600, 600))
        inputs = find_inputs(draws)[0]._replace(guess=None)
        training = inputs.take(train_rows, train_rows)
        for name, rows in (("seen", train_rows), ("held out", ~train_rows)):
            held = inputs.take(rows, rows)
            [logits] = classify(find_features(training, held, 25), training, held, (1e-4,))
            bound = make_bound(logits, None, GOAL, -3.0, 3.0)._replace(log_a=0.0, log_b=0.0)
            found[name].append(sum(part.mean() for part in bound.terms(logits, None)))
    assert z_score(found["seen"]) > 2 * Z_MAX
    assert z_score(found["held out"]) < Z_MAX


def test_log_ratio_takes_rows():
    ratio = LogRatio(np.arange(4.0), np.arange(3.0))
    taken = ratio.take(np.array([True, False, True, False]), np.array([False, True, True]))
    np.testing.assert_array_equal(taken.gold, [0.0, 2.0])
    np.testing.assert_array_equal(taken.target, [1.0, 2.0])


def test_many_coordinates_and_few_runs():
    """Scales that differ by a factor of 2 in 20 dimensions, 100 runs: 22.5 nats are not 0.

    Features of single coordinates are too many for so few runs; fitted Gaussians are not.
    """
    rng = np.random.default_rng(1)
    inputs = ClassifierInputs(
        (rng.normal(size=(100, 20)), 2 * rng.normal(size=(100, 20))), None, None
    )
    assert lower_terms([inputs], 0.975).limit(0.975) > 2.0
    equal = ClassifierInputs((rng.normal(size=(100, 20)), rng.normal(size=(100, 20))), None, None)
    assert lower_terms([equal], 0.975).limit(0.975) < 0.0


def test_directions_add_up():
    """Their means are those of the whole bound, and each stays below its own divergence."""
    rng = np.random.default_rng(2)
    inputs = ClassifierInputs((rng.normal(size=300), 1.0 + 2 * rng.normal(size=300)), None, None)
    found = lower_terms([inputs], 0.975)
    assert found.directions is not None
    for part in ("gold", "target"):
        total = sum(getattr(half, part) for half in found.directions)
        np.testing.assert_allclose(total, getattr(found, part), rtol=1e-9)
    assert sum(half.allowance for half in found.directions) == pytest.approx(found.allowance)
    forward, backward = found.direction_limits(0.975) or (np.nan, np.nan)
    assert 0 < forward < np.log(2) + (1 + 1) / 8 - 0.5
    assert 0 < backward < -np.log(2) + (4 + 1) / 2 - 0.5
