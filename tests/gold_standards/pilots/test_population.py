r"""Populations of pilots: temperatures and spreads against closed forms."""

import numpy as np
import pytest
from scipy import stats

from aide.gold_standards.pilots.population import (
    Population,
    PopulationMoments,
    effective_share,
    moments_of,
    next_temperature,
    resample,
    weigh,
)


def population(ratios):
    flat = np.zeros((len(ratios), 1))
    return Population(flat, flat, np.asarray(ratios, float))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0, 1e7])
def test_the_next_temperature_leaves_the_share_asked_for(scale):
    r"""With $h \sim N(0, \sigma^2)$ a share of $e^{-\delta^2\sigma^2}$ is left."""
    points = (np.arange(20_000) + 0.5) / 20_000
    found = population(scale * stats.norm.ppf(points))
    after = next_temperature(found, 0.25, 0.8)
    expected = min(0.25 + np.sqrt(-np.log(0.8)) / scale, 1.0)
    assert after == pytest.approx(expected, rel=5e-3)
    if after < 1.0:
        assert effective_share((after - 0.25) * found.log_ratios) == pytest.approx(0.8, abs=2e-3)


def test_states_outside_the_support_do_not_stop_the_path():
    """They are lost by every step; without care the step would shrink to nothing."""
    ratios = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    known = next_temperature(population(ratios), 0.0, 0.8)
    mixed = population(np.concatenate([ratios, np.full(3000, -np.inf)]))
    assert next_temperature(mixed, 0.0, 0.8) == known
    weights = weigh(mixed, known)
    assert np.all(weights[1000:] == 0)
    assert weights.sum() == pytest.approx(1.0)
    kept = resample(np.random.default_rng(0), mixed, weights)
    assert np.all(np.isfinite(kept.log_ratios))


def test_systematic_resampling_keeps_every_number_within_one():
    weights = np.array([0.05, 0.6, 0.35])
    some = population([0.0, 1.0, 2.0]).take(np.repeat([0, 1, 2], 100))
    spread = np.repeat(weights / 100, 100)
    kept = resample(np.random.default_rng(1), some, spread).log_ratios
    counts = np.array([np.sum(kept == value) for value in (0.0, 1.0, 2.0)])
    assert np.all(np.abs(counts - 300 * weights) <= 1)


def test_the_factor_whitens():
    rng = np.random.default_rng(2)
    mixing = np.array([[2.0, 0.0, 0.0], [1.5, 0.1, 0.0], [-3.0, 0.02, 5.0]])
    flat = rng.normal(size=(4000, 3)) @ mixing.T
    found = Population(flat, flat, np.zeros(4000))
    moments = moments_of(found.flat, weigh(found, 1.0))
    np.testing.assert_allclose(moments.covariance, np.cov(flat.T, bias=True), rtol=1e-10)
    assert moments.num == pytest.approx(4000)
    white = np.linalg.solve(moments.factor(True), (flat - moments.mean).T)
    values = np.linalg.eigvalsh(np.cov(white, bias=True))
    assert values.max() / values.min() < 1.01
    np.testing.assert_allclose(moments.factor(False), flat.std(axis=0))
    values = np.linalg.eigvalsh(np.cov((flat / moments.factor(False)).T, bias=True))
    assert values.max() / values.min() > 100  # control: scales alone do not


def test_few_particles_shrink_correlations_and_constants_count_as_one():
    flat = np.column_stack([np.arange(3.0), 2 * np.arange(3.0), np.full(3, 7.0)])
    found = Population(flat, flat, np.zeros(3))
    factor = moments_of(found.flat, np.full(3, 1 / 3)).factor(True)  # singular without shrinkage
    covariance = factor @ factor.T
    assert np.all(np.linalg.eigvalsh(covariance) > 0.1)
    np.testing.assert_allclose(np.diag(covariance), [2 / 3, 8 / 3, 1.0])
    assert PopulationMoments(np.zeros(1), np.zeros((1, 1)), 5.0).factor(False)[0] == 1.0
