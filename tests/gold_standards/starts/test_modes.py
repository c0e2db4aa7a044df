"""Starts fitted to modes: a density that is one, its sampler, and the modes found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from aide.gold_standards.starts.tails import FREEDOM, StudentMixture, fit_start
from aide.problems.distributions import Normal

WEIGHTS, MEANS, SCALES = np.array([0.7, 0.3]), np.array([-2.0, 5.0]), np.array([0.5, 2.0])
MIXTURE = StudentMixture(WEIGHTS, MEANS[:, None], SCALES[:, None, None], np.float64(0.0))


def distribution(x, weights=WEIGHTS):
    parts = zip(weights, MEANS, SCALES, strict=True)
    return sum(w * stats.t.cdf(x, FREEDOM, m, s) for w, m, s in parts)


def test_the_density_is_normalised_and_right(x64):
    angle = np.linspace(-np.pi / 2, np.pi / 2, 40_001)[1:-1]
    points = 3.0 * np.tan(angle)
    density = np.exp(jax.vmap(MIXTURE.log_density)(points))
    mass = np.trapezoid(density * 3.0 / np.cos(angle) ** 2, angle)
    assert mass == pytest.approx(1.0, abs=1e-6)
    parts = zip(WEIGHTS, MEANS, SCALES, strict=True)
    known = sum(w * stats.t.pdf(points, FREEDOM, m, s) for w, m, s in parts)
    np.testing.assert_allclose(density, known, rtol=1e-9)


@pytest.mark.full
def test_the_sampler_agrees_with_the_density(x64):
    draws = jax.vmap(MIXTURE.sample)(jax.random.split(jax.random.key(7), 20_000))
    assert stats.kstest(np.asarray(draws), distribution).pvalue > 1e-6
    wrong = stats.kstest(np.asarray(draws), lambda x: distribution(x, [0.75, 0.25]))
    assert wrong.pvalue < 1e-6


def two_modes(x):
    point = jnp.stack([x["a"], x["b"]])
    far = Normal(np.array([6.0, 1.0]), np.array([0.7, 1.0])).log_prob(point)
    return jnp.logaddexp(Normal(np.zeros(2), 1.0).log_prob(point), far - 1.0)


@pytest.mark.full
def test_both_modes_are_found_in_the_structure_of_the_state():
    found = fit_start(jax.random.key(0), two_modes, {"a": 1.0, "b": 0.0})
    order = np.argsort(found.means[:, 0])
    np.testing.assert_allclose(found.means[order], [[0.0, 0.0], [6.0, 1.0]], atol=1e-3)
    spread = np.array([np.diag(factor) for factor in found.factors])[order]
    np.testing.assert_allclose(spread, 1.5 * np.array([[1.0, 1.0], [0.7, 1.0]]), rtol=1e-2)
    assert found.weights.sum() == pytest.approx(1.0)
    share = np.exp(-1.0) / (1 + np.exp(-1.0))
    assert found.weights[order[1]] == pytest.approx(0.8 * share + 0.1, rel=1e-2)
    with jax.enable_x64(True):
        assert set(found.sample(jax.random.key(1))) == {"a", "b"}


@pytest.mark.full
def test_spikes_without_end_are_cut_off():
    """Where a density grows without limit (a hierarchy's scale at 0) optimisers never arrive."""
    spike = lambda x: Normal(0.0, 5.0).log_prob(x[0]) + Normal(0.0, jnp.exp(x[0])).log_prob(x[1])
    found = fit_start(jax.random.key(0), spike, np.zeros(2))
    assert np.all(np.isfinite(found.factors))


def test_no_mode_at_all():
    with pytest.raises(ValueError, match=r"found a point\s+with a finite log density"):
        fit_start(jax.random.key(0), lambda x: jnp.where(x > 1e6, 0.0, -jnp.inf), np.float64(0.0))
