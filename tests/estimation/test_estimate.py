r"""Every number of an `Estimate` is Algorithm 2 re-computed in plain NumPy from its draws.

Checked on a pair whose meta-inference is imperfect on both sides, with N and M different for gold
and target, so that a swapped axis, a lost own trace or a swapped M changes the result.
"""

import numpy as np
import pytest
from reference import algorithm2
from support.pairs import NoisyGaussian, gaussian, run

from aide.engine.draws import Runs
from aide.problems import LinearRegression

M_GOLD, M_TARGET = 3, 4
EXACT = 1e-10


@pytest.fixture(scope="module")
def result():
    gold, target = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
    return run(gold, target, 40, 25, num_meta_gold=M_GOLD, num_meta_target=M_TARGET)


def test_value_and_error(result):
    value, error = algorithm2.value_and_error(result.draws, M_GOLD, M_TARGET)
    assert result.value == pytest.approx(value, abs=EXACT)
    assert result.std_error == pytest.approx(error, abs=EXACT)
    assert result.draws.gold.own.shape == (40, M_GOLD + 1)
    assert result.draws.gold.cross.shape == (40, M_TARGET)
    assert result.draws.target.own.shape == (25, M_TARGET + 1)
    assert result.draws.target.cross.shape == (25, M_GOLD)


def test_own_trace_is_among_the_scores(result):
    r"""Control: without the own trace the same draws give another, lower number."""
    value, _ = algorithm2.value_and_error(result.draws, M_GOLD, M_TARGET)
    without = 0.0
    for side, num_own, num_cross in (
        (result.draws.gold, M_GOLD, M_TARGET),
        (result.draws.target, M_TARGET, M_GOLD),
    ):
        shifted = Runs(side.own[:, 1:], side.cross)
        without += algorithm2.terms(shifted, num_own, num_cross).mean()
    assert abs(result.value - without) > 1e-3
    assert result.value == pytest.approx(value, abs=EXACT)


def test_directions(result):
    first, second = algorithm2.directions(result.draws, M_GOLD, M_TARGET)
    assert result.gold_to_target[:2] == pytest.approx(first, abs=EXACT)
    assert result.target_to_gold[:2] == pytest.approx(second, abs=EXACT)
    assert result.gold_to_target.is_kl_bound
    assert result.target_to_gold.num_infinite == 0


@pytest.mark.parametrize("role", ["gold", "target"])
def test_meta_curve(result, role):
    curve = result.meta_curve(role)
    most = M_GOLD if role == "gold" else M_TARGET
    np.testing.assert_array_equal(curve.num_meta, np.arange(1, most + 1))
    for num, value, error in zip(*curve, strict=True):
        metas = (num, M_TARGET) if role == "gold" else (M_GOLD, num)
        expected = algorithm2.value_and_error(result.draws, *metas)
        assert (value, error) == pytest.approx(expected, abs=EXACT)
    assert curve.value[-1] == pytest.approx(result.value, abs=EXACT)


def test_meta_curve_role_is_checked(result):
    with pytest.raises(ValueError, match=r"role must be 'gold' or 'target', got 'both'"):
        result.meta_curve("both")


def test_looseness(result):
    gold = algorithm2.looseness(result.draws.gold, M_GOLD)
    target = algorithm2.looseness(result.draws.target, M_TARGET)
    assert result.looseness.gold == pytest.approx(gold, abs=EXACT)
    assert result.looseness.target == pytest.approx(target, abs=EXACT)


def test_looseness_of_a_tractable_algorithm_is_zero():
    result = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3))
    assert result.looseness.gold == pytest.approx((0.0, 0.0), abs=1e-14)
    assert result.looseness.target == pytest.approx((0.0, 0.0), abs=1e-14)


def test_without_looseness_the_rest_is_the_same(result):
    pair = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
    metas = {"num_meta_gold": M_GOLD, "num_meta_target": M_TARGET}
    lean = run(*pair, 40, 25, measure_looseness=False, **metas)
    assert lean.looseness == (None, None)
    assert lean.draws.gold.own.shape == (40, M_GOLD)
    assert lean.value == pytest.approx(result.value, abs=EXACT)


def test_tractable_against_itself_is_zero():
    posterior = LinearRegression().posterior()
    result = run(posterior, posterior)
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert result.std_error == pytest.approx(0.0, abs=1e-12)
