r"""lower ≤ D ≤ upper as often as stated, on pairs whose divergence is known.

Misses in replications are counted and compared with the 5% allowed, 5 standard errors given. The
whole study is `benchmarks/coverage/sandwich.py`; here are reduced versions.
"""

import math

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.made import Gaussian, make_draws, noisy_pair, with_log_z
from support.pairs import (
    bimodal_modes,
    bimodal_sir,
    gaussian,
    gaussian_kl,
    hidden_markov,
    run,
    slices,
)

import aide
from aide._core.types import TARGET
from aide.estimation.sandwich import sandwich
from aide.estimation.sandwich.sandwich import MIN_RUNS
from aide.estimation.terms import is_tractable


def _too_many(misses, count, allowed=0.05):
    return stats.binom.sf(misses - 1, count, allowed) < stats.norm.sf(Z_MAX)


def _misses(all_draws, truth):
    found = [aide.estimation.Estimate(draws).sandwich() for draws in all_draws]
    return sum(not s.lower <= truth <= s.upper for s in found), len(found)


def _gaussians(wanted, dimension, slope, count, num=300, meta=1, log_z=(0.0, 0.0)):
    pair = noisy_pair(wanted, dimension, slope)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield make_draws(rng, *pair, (num, num), (meta, meta), log_z)


@pytest.mark.parametrize(
    "dimension", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (10, 50))]
)
@pytest.mark.parametrize("wanted", [0.01, 1.0, 20.0])
def test_tractable_gaussians(wanted, dimension):
    assert not _too_many(*_misses(_gaussians(wanted, dimension, 0.0, 100, meta=2), wanted))


@pytest.mark.parametrize("log_z", [pytest.param((0.0, 0.0), marks=pytest.mark.full), (None, 0.0)])
@pytest.mark.parametrize(("wanted", "dimension"), [(0.1, 1)])
def test_noisy_gaussians(wanted, dimension, log_z):
    draws = _gaussians(wanted, dimension, 0.3, 4, num=200, meta=4, log_z=log_z)
    assert not _too_many(*_misses(draws, wanted))


@pytest.mark.parametrize(
    ("known", "meta", "count"),
    [
        (bimodal_modes(), 2, 60),
        pytest.param(bimodal_sir(5), 4, 4, marks=pytest.mark.full),
        pytest.param(hidden_markov(1), 2, 60, marks=pytest.mark.full),
        pytest.param(hidden_markov(2), 4, 5, marks=pytest.mark.full),
    ],
    ids=["one mode missed", "SIR", "filter P = 1", "filter P = 2"],
)
def test_pairs_of_the_library(known, meta, count):
    gold, target, truth = known
    assert not _too_many(*_misses(slices(gold, target, 300, count, meta), truth))


@pytest.mark.full
@pytest.mark.parametrize("log_z", [(0.0, 0.0), (None, 0.0)])
@pytest.mark.parametrize("dimension", [1, 10, 50])
@pytest.mark.parametrize("wanted", [0.01, 0.1, 1.0, 5.0, 20.0])
def test_noisy_gaussians_in_full(wanted, dimension, log_z):
    draws = _gaussians(wanted, dimension, 0.3, 20, num=500, meta=4, log_z=log_z)
    assert not _too_many(*_misses(draws, wanted))


def test_coverage_can_fail():
    """Control: a constant that is off by half a nat is no longer covered."""
    draws = _gaussians(1.0, 1, 0.0, 100, meta=2, log_z=(0.5, 0.0))
    assert _too_many(*_misses(draws, 1.0))


@pytest.mark.full
def test_widths():
    """10 dimensions, 2,000 runs: a tenth of D = 5, classifier or not; near 0 if tractable."""
    for wanted, slope, meta, widest in (
        (5.0, 0.0, 2, 0.1),
        (5.0, 0.3, 8, 0.1),
        (0.01, 0.0, 2, 0.1),
    ):
        [draws] = _gaussians(wanted, 10, slope, 1, 2000, meta)
        low, high = aide.estimation.Estimate(draws).sandwich().limits
        assert low <= wanted <= high
        assert high - low < widest * wanted


def test_balancing_beats_the_logarithm_of_the_number_of_runs():
    """At 20 nats, samples alone saturate and say so; known constants give the rest."""
    [draws] = _gaussians(20.0, 10, 0.3, 1, 500, 4)
    known = aide.estimation.Estimate(draws).sandwich()
    unknown = aide.estimation.Estimate(with_log_z(draws, (None, 0.0))).sandwich()
    assert known.lower > 17.0
    assert not known.saturated
    assert unknown.lower < 2 * math.log(500)
    assert unknown.saturated


def test_a_tractable_pair_needs_no_outputs():
    pair, metas = (
        (gaussian(0.1, 0.7), gaussian(0.3, 1.3)),
        {"num_meta_gold": 2, "num_meta_target": 2},
    )
    result = run(*pair, 200, 300, **metas, keep_values=False)
    assert result.draws.gold.values is None
    found = result.sandwich(0.9)
    truth = gaussian_kl(0.1, 0.7, 0.3, 1.3) + gaussian_kl(0.3, 1.3, 0.1, 0.7)
    assert found.exact
    assert found.lower <= truth <= found.upper
    wide = result.sandwich(0.999)
    assert wide.lower <= found.lower <= found.upper <= wide.upper
    same = run(pair[0], pair[0], 100, 100, **metas).sandwich()
    assert same.limits == pytest.approx((0.0, 0.0), abs=1e-12)


NOISY = Gaussian(0.3, 0.5, 0.8), Gaussian(-0.4, 0.9, 0.5)
EXACT = Gaussian(0.1, 0.7)


def _estimate(gold, target, nums, metas=(1, 1)):
    return aide.estimation.Estimate(make_draws(np.random.default_rng(0), gold, target, nums, metas))


def test_errors_name_the_fix():
    with pytest.raises(ValueError, match="keep_values=True"):
        aide.estimation.Estimate(_estimate(*NOISY, (60, 60)).draws.without_values()).sandwich()
    with pytest.raises(ValueError, match=f"at least {MIN_RUNS} runs on both sides, got 20"):
        _estimate(*NOISY, (20, 60)).sandwich()
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 1"):
        _estimate(*NOISY, (60, 60)).sandwich(1.0)


def test_the_same_draws_give_the_same_sandwich():
    result = _estimate(*NOISY, (120, 110))
    again = aide.estimation.Estimate(result.draws)
    assert result.sandwich() == again.sandwich()
    assert result.sandwich() is result.sandwich()


def test_outputs_without_mass():
    """A gold output that the target cannot make: the upper end is infinite, the lower is not."""
    [draws] = _gaussians(1.0, 1, 0.3, 1, 200, 2)
    draws.gold.cross[3] = -np.inf
    found = aide.estimation.Estimate(draws).sandwich()
    assert found.upper == math.inf
    assert 0.0 <= found.lower < 2.0
    assert "divergence ≤ +inf (95%)" in repr(found)


def _labels(result):
    legends = [panel.get_legend() for panel in result.plot().axes]
    return [text.get_text() for legend in legends if legend for text in legend.get_texts()]


def test_summary_and_figure_show_it_where_it_is_a_formula(monkeypatch):
    exact = _estimate(EXACT, Gaussian(0.3, 1.3), (200, 300), (2, 2))
    low, high = exact.sandwich().limits
    words = f"{low:.3g} ≤ divergence ≤ {high:.3g} (95%); both densities are known."
    assert f"sandwich        {words}\n" in repr(exact)
    assert "sandwich, 95%" in _labels(exact)
    kept = _estimate(*NOISY, (120, 110))
    text = repr(kept)
    assert "estimate.sandwich() gives a lower limit of the divergence too.\n" in text
    low, high = kept.sandwich().limits
    assert f"{low:.3g} ≤ divergence ≤ {high:.3g} (95%)" in repr(kept.sandwich())
    assert repr(kept) == text  # whatever was asked before
    monkeypatch.setattr(sandwich, "lower_terms", None)  # printing trains nothing
    again = aide.estimation.Estimate(kept.draws)
    assert repr(again) == text
    assert "sandwich, 95%" not in _labels(again)
    lean = aide.estimation.Estimate(kept.draws.without_values())
    assert "a lower limit of the divergence too; it needs keep_values=True.\n" in repr(lean)
    few = _estimate(*NOISY, (20, 60))
    assert "too; it needs 50 runs or more on both sides.\n" in repr(few)


class Sloppy(Gaussian):
    """Meta-inference that varies away from its own outputs only: own scores look exact."""

    def regenerate(self, rng, x, num):
        noise = np.where(x > 2.0, rng.exponential(8.0, (*x.shape, num))[:, 0], 0.0)
        return super().regenerate(rng, x, num) - noise


def test_one_score_per_output_is_never_called_exact():
    """Scores vary at the other's outputs alone: with M = 1 nobody sees it, or may call it exact."""
    pair = Gaussian(4.0, 0.5), Sloppy(0.0, 0.5)
    seen = _estimate(*pair, (200, 200), (1, 1))
    assert np.ptp(seen.draws.target.own, axis=1).max() == 0.0
    assert not is_tractable(seen.draws, TARGET)
    assert "both densities" not in repr(seen)
    assert not is_tractable(_estimate(*pair, (200, 200), (1, 2)).draws, TARGET)
    assert is_tractable(_estimate(Gaussian(4.0, 0.5), EXACT, (200, 200), (2, 2)).draws, TARGET)
