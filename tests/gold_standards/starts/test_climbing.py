"""Climbs arrive whatever the units of the coordinates are, and stop when time is up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide.gold_standards.budget import Budget
from aide.gold_standards.starts import tails
from aide.gold_standards.starts.climbing import STRETCH, Mode, Optimiser
from aide.gold_standards.starts.tails import fit_start

RNG = np.random.default_rng(0)
HEIGHTS = RNG.normal(66.6, 3.8, 1192)
EARNINGS = -84_000 + 1590 * HEIGHTS + RNG.normal(0.0, 19_000.0, 1192)


def log_earnings(x):
    """A regression in raw units: dollars on inches, not centred; the last is a log scale."""
    residuals = jnp.asarray(EARNINGS) - x[0] - x[1] * jnp.asarray(HEIGHTS)
    return jnp.sum(-0.5 * (residuals * jnp.exp(-x[2])) ** 2 - x[2])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_regression_in_raw_units_has_one_mode(seed):
    """Posterior sds from 0.02 to 10,000: every climb ends at the least squares, none on its way."""
    heard = list[int]()
    found = fit_start(jax.random.key(seed), log_earnings, np.zeros(3), Budget(), heard.append)
    columns = np.column_stack([np.ones(1192), HEIGHTS])
    known = np.linalg.lstsq(columns, EARNINGS, rcond=None)[0]
    sigma = np.sqrt(np.mean((EARNINGS - columns @ known) ** 2))
    covariance = sigma**2 * np.linalg.inv(columns.T @ columns)
    assert len(found.means) == 1
    spread = np.sqrt([*np.diag(covariance), 0.5 / 1192])
    np.testing.assert_allclose(found.means[0], [*known, np.log(sigma)], atol=1e-2 * spread.min())
    factor = found.factors[0] / STRETCH
    np.testing.assert_allclose(np.sqrt(np.diag(factor @ factor.T)), spread, rtol=1e-3)
    assert sum(heard) == tails.NUM_POINTS


def test_time_that_is_up_ends_climbs(x64):
    """One climb is made, from what there was time for."""
    calls = []

    def is_late():
        calls.append(1)
        return len(calls) > 5

    optimiser = Optimiser(log_earnings, is_late)
    ends = optimiser.climb(np.zeros((4, 3)))
    assert len(ends) == 1
    assert ends[0][1] > float(log_earnings(jnp.zeros(3)))


def two_peaks(x):
    apart = jnp.stack([x[0] - 2.0, x[0] + 2.0])
    return jax.nn.logsumexp(-0.5 * (apart / 0.5) ** 2) - 0.5 * (1e-5 * x[1]) ** 2


def test_ends_are_one_mode_where_nothing_lies_between(x64):
    """On a ridge that is long and flat, two ends are one; across a valley they are two."""
    optimiser = Optimiser(two_peaks)
    height = lambda end: float(two_peaks(jnp.asarray(end)))
    ends = [np.array(end) for end in ([2.0, 0.0], [2.0, 4e4], [-2.0, 0.0])]
    found = optimiser.modes_of([(end, height(end)) for end in ends], 12)
    assert sorted(mode.mean[0] for mode in found) == [-2.0, 2.0]
    np.testing.assert_allclose(np.abs(found[0].factor[1, 1]), STRETCH * 1e5, rtol=1e-3)


def test_a_direction_without_curvature_is_as_wide_as_the_density_says(x64):
    """A quartic has none at its mode; a Laplace approximation would be without end."""
    quartic = lambda x: -0.5 * x[0] ** 2 - x[1] ** 4 / 1e8
    (found,) = Optimiser(quartic).modes_of([(np.zeros(2), 0.0)], 1)
    assert 10.0 < found.factor[1, 1] / STRETCH < 200.0


def test_a_mode_that_is_long_and_thin_has_distances_and_one_without_width_is_none():
    """A general solver takes the factor for singular; what is lower triangular can be solved."""
    factor = np.array([[1e-12, 0.0, 0.0], [1.0, 1e-12, 0.0], [1.0, 1.0, 1e-12]])
    mode = Mode(0.0, np.zeros(3), factor)
    np.testing.assert_allclose(mode.distances(factor[:, 0][None] / 1.5), 1 / 3, rtol=1e-9)
    spike = lambda x: -1e300 * jnp.sum(x**2)
    modes = Optimiser(spike).modes_of([(np.zeros(2), 0.0)], 1)
    assert all(np.all(np.diag(mode.factor) > 0) for mode in modes)
