r"""One direction from both sides, where the other algorithm is tractable; contradictory claims."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from support import Z_MAX
from support.made import Gaussian, make_draws, with_log_z
from support.pairs import gaussian, gaussian_kl, run

import aide

NOISY = Gaussian(0.3, 0.5, 0.8), Gaussian(-0.4, 0.9, 0.5)
EXACT = Gaussian(0.1, 0.7)


def _estimate(gold, target, nums, metas=(1, 1)):
    return aide.estimation.Estimate(make_draws(np.random.default_rng(0), gold, target, nums, metas))


def test_kl_from_both_sides():
    """Gold tractable: KL(target || gold) lies between fresh and own traces, in closed form."""
    target = Gaussian(0.3, 0.5, 0.8)
    result = _estimate(EXACT, target, (4000, 4000), (2, 2))
    bracket, gap = result.kl_bounds.target_to_gold, result.looseness.target
    assert result.kl_bounds.gold_to_target is None
    assert bracket is not None
    assert gap is not None
    truth = gaussian_kl(0.3, target.total, 0.1, 0.7)
    _check_bracket(bracket, truth)
    assert bracket.upper.value == pytest.approx(result.target_to_gold.value)
    assert bracket.upper.value - bracket.lower.value == pytest.approx(gap.value)
    assert "KL(target‖gold) lies between" in repr(result)
    mirrored = _estimate(target, EXACT, (4000, 4000), (2, 2)).kl_bounds
    assert mirrored.target_to_gold is None
    assert mirrored.gold_to_target is not None
    _check_bracket(mirrored.gold_to_target, truth)


def _check_bracket(bracket, truth):
    """Both ends on their sides; they are loose here, so neither is mistaken for the truth."""
    assert (truth - bracket.lower.value) / bracket.lower.std_error > Z_MAX
    assert (bracket.upper.value - truth) / bracket.upper.std_error > Z_MAX


def test_kl_from_both_sides_needs_constants_and_a_tractable_opponent():
    assert _estimate(*NOISY, (50, 50)).kl_bounds == (None, None)
    draws = _estimate(EXACT, NOISY[0], (50, 50), (2, 1)).draws
    assert aide.estimation.Estimate(draws).kl_bounds.target_to_gold is not None
    assert aide.estimation.Estimate(with_log_z(draws, (None, 0.0))).kl_bounds == (None, None)
    lean = [replace(side, own=side.own[:, :1]) for side in (draws.gold, draws.target)]
    assert aide.estimation.Estimate(replace(draws, gold=lean[0], target=lean[1])).kl_bounds == (
        None,
        None,
    )
    rng = np.random.default_rng(0)
    pair = Gaussian(0, 1), Gaussian(1, 1, 0.5)
    plain = aide.estimation.Estimate(make_draws(rng, *pair, (50, 50), (2, 1)))
    moved = with_log_z(plain.draws, (0.4, -0.2))
    one, two = (e.kl_bounds.target_to_gold for e in (plain, aide.estimation.Estimate(moved)))
    assert one is not None
    assert two is not None
    for before, after in zip(one, two, strict=True):
        assert after.value == pytest.approx(before.value + 0.6)


def test_contradictory_claims_are_reported():
    normal = gaussian(0.3, 1.3)
    wrong = aide.Tractable(normal.sample, lambda x: normal.log_density(x) + 0.5, log_z=0.0)
    key = jax.random.key(3)
    bad = run(gaussian(0.1, 1.0), wrong, 500, 500, key=key)
    [note] = [note for note in bad.notes if "contradict each other" in note]
    assert "once in 10,000 times" in note
    assert len(note) < 250
    good = run(gaussian(0.1, 1.0), normal, 500, 500, key=key)
    assert not any("contradict" in note for note in good.notes)
