r"""Draws are a function of (key, role, run, meta index): shared, extended and pooled runs agree.

Runs of plain Python algorithms are counted, to prove that nothing is run twice. (One run per
algorithm may be spent on looking at its output.)
"""

import jax
import numpy as np
import pytest
from support.pairs import KEY, NoisyGaussian, NumpyGaussian, assert_same, gaussian, leaves_of, run

import aide
from aide.engine.known import NUM_REPEATED

GOLD, TARGET = NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9)
OTHER = NoisyGaussian(0.9, 0.2, 0.7)
TOLERANCE = 1e-9


def _draw(gold=GOLD, target=TARGET, num_gold=20, num_target=30, **options):
    key = options.pop("key", KEY)
    return aide.draw(key, gold, target, num_gold=num_gold, num_target=num_target, **options)


def _numpy(mean=0.0, std=1.0, label="exact"):
    inner = NumpyGaussian(mean, std)
    return inner, aide.PythonAlgorithm(inner, log_z=0.0, label=label)


def test_draw_then_summarise_is_estimate():
    result = run(GOLD, TARGET, num_meta_gold=2)
    draws = _draw(num_meta_gold=2)
    assert_same(draws, result.draws)
    assert aide.summarise(draws).value == result.value
    assert aide.summarise(draws).interval() == result.interval()


def test_same_key_same_numbers_other_key_other_numbers():
    assert_same(_draw(), _draw())
    assert_same(_draw(key=jax.random.PRNGKey(7)), _draw(key=jax.random.key(7)))
    first, second = _draw().gold.own, _draw(key=jax.random.key(8)).gold.own
    assert not np.isclose(first, second).any()


def test_streams_are_distinct():
    """The same algorithm on both sides draws other outputs, and no meta-run repeats another."""
    draws = _draw(GOLD, GOLD, 20, 20, num_meta_gold=3, num_meta_target=3, keep_values=True)
    assert not np.isclose(draws.gold.values, draws.target.values).any()
    for side in (draws.gold, draws.target):
        scores = np.concatenate([side.own, side.cross], axis=1)
        assert all(np.unique(row).size == scores.shape[1] for row in scores)


@pytest.mark.parametrize("keep_values", [True, False])
def test_share_equals_separate_runs(keep_values):
    first = _draw(keep_values=keep_values)
    shared = _draw(target=OTHER, share=first, num_meta_gold=2, num_meta_target=3)
    assert_same(shared, _draw(target=OTHER, num_meta_gold=2, num_meta_target=3), TOLERANCE)


@pytest.mark.parametrize("num_gold", [12, 35])
def test_share_with_another_number_of_runs(num_gold):
    first = _draw(keep_values=True)
    shared = _draw(target=OTHER, num_gold=num_gold, share=first)
    assert_same(shared, _draw(target=OTHER, num_gold=num_gold), TOLERANCE)


def test_share_does_not_run_the_gold_standard_again():
    inner, gold = _numpy()
    first = _draw(gold, gaussian(0.3, 1.1, "a"), keep_values=True)
    before = inner.num_simulated
    shared = _draw(gold, gaussian(0.6, 1.2, "b"), share=first)
    assert inner.num_simulated <= before + 1 + NUM_REPEATED
    assert_same(shared, _draw(_numpy()[1], gaussian(0.6, 1.2, "b")), TOLERANCE)


def test_share_and_extend_take_estimates_too():
    """`aide.estimate` returns an `Estimate`: that is what a person has at hand."""
    result = run(GOLD, TARGET, keep_values=True)
    assert_same(_draw(target=OTHER, share=result), _draw(target=OTHER), TOLERANCE)
    assert_same(_draw(num_meta_gold=2, extend=result), _draw(num_meta_gold=2), TOLERANCE)


@pytest.mark.parametrize("keep_values", [True, False])
@pytest.mark.parametrize("measure_looseness", [True, False])
def test_extend_equals_one_big_run(keep_values, measure_looseness):
    metas = {"num_meta_gold": 3, "num_meta_target": 2}
    small = _draw(num_meta_gold=2, keep_values=keep_values, measure_looseness=measure_looseness)
    large = _draw(num_gold=45, num_target=37, extend=small, **metas)
    assert_same(large, _draw(num_gold=45, num_target=37, **metas), TOLERANCE)
    back = _draw(num_gold=11, num_target=12, extend=large)
    assert_same(back, _draw(num_gold=11, num_target=12), TOLERANCE)


def test_extend_runs_only_what_is_missing():
    (one, gold), (two, target) = _numpy(label="a"), _numpy(0.4, 1.3, "b")
    small = _draw(gold, target, 20, 30, keep_values=True)
    runs, metas = one.num_simulated, one.num_regenerated
    assert 20 <= runs <= 21
    assert metas == 20 + 30
    _draw(gold, target, 25, 30, keep_values=True, extend=small)
    assert 5 <= one.num_simulated - runs <= 6 + NUM_REPEATED
    assert 5 <= one.num_regenerated - metas <= 5 + 2 * NUM_REPEATED  # to compare
    assert two.num_simulated <= 31 + 1 + NUM_REPEATED


def test_extend_keeps_values_if_asked():
    """Values that were not kept are simulated again, not silently left out."""
    large = _draw(num_gold=25, extend=_draw(), keep_values=True)
    fresh = _draw(num_gold=25, keep_values=True)
    for one, two in zip(leaves_of(large.gold.values), leaves_of(fresh.gold.values), strict=True):
        np.testing.assert_allclose(one, two, rtol=TOLERANCE)
    assert leaves_of(large.target.values)[0].shape == (30,)


def test_ranges_of_runs_concatenate():
    metas = {"num_meta_gold": 2, "num_meta_target": 3, "keep_values": True}
    whole = _draw(num_gold=30, num_target=30, **metas)
    parts = [_draw(num_gold=n, num_target=n, first_run=f, **metas) for f, n in ((0, 12), (12, 18))]
    pooled = aide.engine.concatenate(parts)
    assert_same(pooled, whole, TOLERANCE)
    assert aide.summarise(pooled).value == pytest.approx(aide.summarise(whole).value, abs=TOLERANCE)
    np.testing.assert_allclose(pooled.gold.values, whole.gold.values, rtol=TOLERANCE)


def test_concatenate_refuses_what_does_not_belong_together():
    with pytest.raises(ValueError, match="at least one"):
        aide.engine.concatenate([])
    with pytest.raises(ValueError, match="num_meta_gold, got 1 and 2"):
        aide.engine.concatenate([_draw(), _draw(key=jax.random.key(8), num_meta_gold=2)])
    with pytest.raises(ValueError, match=r"agree on name, .*exact"):
        aide.engine.concatenate([_draw(), _draw(gold=_numpy()[1])])


def test_concatenate_refuses_the_same_runs_twice():
    """Counting runs twice would shrink the standard error for nothing."""
    with pytest.raises(ValueError, match="twice|same runs|overlap"):
        aide.engine.concatenate([_draw(), _draw()])
    with pytest.raises(ValueError, match="twice|same runs|overlap"):
        aide.engine.concatenate([_draw(), _draw(first_run=10)])


def test_run_indices_have_an_end():
    """Run indices are 32-bit words: run 2**32 must not come out as run 0 again."""
    with pytest.raises(ValueError, match="first_run"):
        _draw(first_run=2**32 - 5)


def test_runs_inside_pooled_draws_are_not_counted_twice():
    (_, gold), (_, target) = _numpy(label="a"), _numpy(0.4, 1.3, "b")
    parts = [_draw(gold, target, 5, 4, first_run=first) for first in (0, 5, 10)]
    pooled = aide.engine.concatenate(parts[:2])
    with pytest.raises(ValueError, match="count them twice"):
        aide.engine.concatenate([pooled, parts[0]])
    whole = aide.engine.concatenate([pooled, parts[2]])  # control: other runs are welcome
    assert whole.gold.num_runs == 15
    with pytest.raises(ValueError, match="count them twice"):
        aide.engine.concatenate([whole, pooled])


def test_pooled_draws_are_of_the_same_algorithms():
    one, two = (_numpy(mean, 1.0, "same name")[1] for mean in (0.0, 5.0))
    parts = [_draw(gold, one, 5, 4, first_run=first) for gold, first in ((one, 0), (two, 5))]
    with pytest.raises(ValueError, match="the same gold algorithm.*differ in its aide_identity"):
        aide.engine.concatenate(parts)
