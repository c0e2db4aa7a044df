r"""Intervals that cover: Hall's transformation re-computed, coverage simulated, warnings.

Coverage is counted over replications on tractable pairs whose divergence is known; a count is
accepted if it is within 5 standard errors of 93% to 97%. Student's interval with a standard error
that is 20% too small is the control, and must be rejected by the same rule.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from support import Z_MAX
from support.made import PAIRS, estimate_with, gammas, welch
from support.pairs import NoisyGaussian, gaussian, run

from aide.estimation.interval import confidence_limit, skewness

SIZES = (100, 300)


def _estimate(gold_terms, target_terms):
    return estimate_with(gold_terms, target_terms, (None, None))


@pytest.mark.parametrize("level", [0.025, 0.5, 0.9, 0.999])
def test_the_limit_inverts_halls_transformation(level):
    rng = np.random.default_rng(3)
    samples = rng.gamma(0.5, size=60), -2.0 * rng.gamma(0.7, size=45)
    variances = [s.var(ddof=1) / s.size for s in samples]
    total = sum(variances)
    third = sum(stats.moment(s, 3) / ((s.size - 1) * (s.size - 2)) for s in samples)
    skew = third / total**1.5
    spread = sum(
        v**2 * (stats.kurtosis(s) + 2) / (s.size - 1)
        for v, s in zip(variances, samples, strict=True)
    )
    normal = sum(2 * v**2 / (s.size - 1) for v, s in zip(variances, samples, strict=True))
    freedom = 2 / max(spread / total**2 - skew**2, normal / total**2)
    g = lambda t: t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6
    wanted = stats.t.ppf(1 - level, freedom)
    t: Any = optimize.brentq(lambda t: g(t) - wanted, -100, 100)
    expected = float(sum(s.mean() for s in samples)) - t * math.sqrt(total)
    assert confidence_limit(samples, level) == pytest.approx(expected, rel=1e-9)


def test_without_skewness_the_limit_is_nearly_welchs():
    noise = np.linspace(-1.0, 1.0, 51)
    ours = confidence_limit((noise, 3.0 * noise), 0.975)
    assert ours == pytest.approx(welch(noise, 3.0 * noise, 0.975), rel=1e-9)


def test_intervals_use_it():
    result = run(NoisyGaussian(0.3, 0.8, 0.5), NoisyGaussian(-0.4, 0.5, 0.9), 120, 110)
    terms = result.terms
    expected = (confidence_limit(terms, 0.05), confidence_limit(terms, 0.95))
    assert result.interval(0.9) == pytest.approx(expected, abs=1e-12)
    assert result.unseen(0.95) == pytest.approx((1 - 0.025 ** (1 / 120), 1 - 0.025 ** (1 / 110)))


def test_limits_at_the_ends():
    terms = np.arange(5.0)
    assert confidence_limit((terms, np.array([1.0])), 0.9) == math.inf
    assert confidence_limit((terms, np.array([1.0])), 0.1) == -math.inf
    assert confidence_limit((np.r_[np.inf, terms], terms), 0.1) == math.inf
    assert confidence_limit((np.full(5, 2.0), np.full(4, 1.0)), 0.9) == 3.0
    assert confidence_limit((np.array([0.0, 1.0]), terms), 0.9) > 2.5


def _misses(pair, count, limit, sizes=SIZES):
    rng = np.random.default_rng(17)
    gold, target = pair.sample(rng, count, *sizes)
    low = np.array([limit(g, t, 0.025) for g, t in zip(gold, target, strict=True)])
    high = np.array([limit(g, t, 0.975) for g, t in zip(gold, target, strict=True)])
    return int(np.sum((low > pair.divergence) | (high < pair.divergence)))


def _accepts(misses, count):
    """Whether so many misses may come from a coverage between 93% and 97%."""
    low, high = stats.binom.sf(misses - 1, count, 0.07), stats.binom.cdf(misses, count, 0.03)
    return min(low, high) > stats.norm.sf(Z_MAX)


def _ours(gold, target, level):
    return confidence_limit((gold, target), level)


@pytest.mark.parametrize("name", PAIRS)
def test_coverage(name):
    assert _accepts(_misses(PAIRS[name], 1000, _ours), 1000)


def test_coverage_can_fail():
    """Control: with a standard error that is 20% too small, 95% intervals cover 88%."""

    def narrow(gold, target, level):
        middle = gold.mean() + target.mean()
        return middle + 0.8 * (welch(gold, target, level) - middle)

    assert not _accepts(_misses(PAIRS["Gaussians, shifted"], 1000, narrow), 1000)


def test_both_ends_miss_alike_where_students_interval_does_not():
    """Terms of skewness 2.9 on one side: Student's upper end misses several times as often."""
    pair, rng = gammas(0.46, 5.0), np.random.default_rng(2)
    gold, target = pair.sample(rng, 3000, 1000, 100)
    above = {}
    for name, limit in (("welch", welch), ("ours", _ours)):
        ends = [limit(g, t, 0.975) for g, t in zip(gold, target, strict=True)]
        above[name] = int(np.sum(np.array(ends) < pair.divergence))
    error = math.sqrt(3000 * 0.035 * 0.965)
    assert above["ours"] < 0.035 * 3000 + Z_MAX * error
    assert above["welch"] > 0.035 * 3000 + Z_MAX * error


@pytest.mark.full
@pytest.mark.parametrize("sizes", [(100, 100), (100, 1000), (1000, 100), (500, 500)])
@pytest.mark.parametrize("name", PAIRS)
def test_coverage_in_full(name, sizes):
    assert _accepts(_misses(PAIRS[name], 3000, _ours, sizes), 3000)


def _mentions(result, word):
    return any(word in note for note in result.notes)


def test_a_warning_outside_of_what_was_tested():
    rng = np.random.default_rng(1)
    mild, strong = rng.gamma(1.0, size=400), rng.gamma(0.1, size=400)
    assert skewness(mild) < 3.0 <= skewness(strong)
    assert _mentions(_estimate(mild, strong), "The terms at the target outputs are strongly skewed")
    assert _mentions(_estimate(-strong, mild), "The terms at the gold outputs are strongly skewed")
    assert not _mentions(_estimate(mild, mild), "skewed")
    assert _mentions(_estimate(mild[:99], mild), "Only 99 runs")
    assert not _mentions(_estimate(mild[:100], mild), "Only")


def test_constant_terms_are_not_skewed():
    assert skewness(5.0 + 1e-15 * np.arange(200.0)) == 0.0
    assert run(gaussian(0.1, 0.7), gaussian(0.1, 0.7), 100, 100).notes == ()
