r"""Learning: the whole way from pilots to a bound, against a grid; parts of the fit."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from support import Z_MAX

import aide
from aide.engine.programs.programs import compile_quickly
from aide.learned.fitting.em import (
    RecordsAtTime,
    em_step,
    fit_times,
    gaussian_slots,
    mean_log_joint,
)
from aide.learned.fitting.real_states import estimate_log_z
from aide.learned.fitting.reverse_fit import describe_stragglers
from aide.learned.records.recorders import nearest, time_grid
from aide.problems.distributions import Normal

START, POSTERIOR, SHIFT = Normal(0.0, 3.0), Normal(1.0, 0.5), 2.5
NUM_STEPS = 12


def log_joint(x):
    return POSTERIOR.log_prob(x) + SHIFT


def walk_law(num_steps, scale=0.9):
    """Log density of the random walk after some steps, on a grid."""
    grid = np.linspace(-15.0, 15.0, 3001)
    width = grid[1] - grid[0]
    q, log_p = stats.norm.pdf(grid, 0.0, 3.0) * width, stats.norm.logpdf(grid, 1.0, 0.5)
    move = stats.norm.pdf(grid[:, None], grid[None], scale) * width
    move *= np.exp(np.minimum(0.0, log_p[None] - log_p[:, None]))
    stay = 1.0 - move.sum(axis=1)
    for _ in range(num_steps):
        q = q @ move + q * stay
    p = np.exp(log_p) * width
    return np.sum((p - q) * (np.log(p / q))), lambda x: np.interp(x, grid, np.log(q / width))


@pytest.mark.full
def test_the_bound_is_tight():
    """Bias below 0.1 nats at 100 particles where the canonical bound is dozens of nats off."""
    parts: Any = {"kernel": aide.kernels.RandomWalk(0.9), "num_steps": NUM_STEPS}
    truth, log_q = walk_law(NUM_STEPS)
    against = (jax.random.key(2), aide.Tractable.of(POSTERIOR))
    with compile_quickly():
        canonical = aide.mcmc(START, log_joint, **parts)
        chain = aide.refine(jax.random.key(1), canonical, num_pilots=1000)
        result = aide.estimate(*against, chain, num_gold=400, num_target=400, keep_values=True)
        loose = aide.estimate(*against, canonical, num_gold=100, num_target=100)
    fit = chain.fit
    assert np.all(np.abs(fit.log_z - SHIFT) < 0.1)
    assert np.all(np.diff(fit.kernel_weights[::3]) > 0)
    draws = result.draws
    missing = log_q(draws.gold.values) - draws.gold.cross[:, 0]
    excess = draws.target.own[:, 0] - log_q(draws.target.values)
    error = np.hypot(missing.std(), excess.std()) / 20
    assert error < 0.02
    assert -Z_MAX * error < missing.mean() + excess.mean() < 0.1 + Z_MAX * error
    assert abs(result.value - truth) < Z_MAX * result.std_error + 0.1
    assert loose.value > truth + 10


def test_times():
    assert time_grid(1).tolist() == [0]
    grid = time_grid(1000)
    assert grid[-1] == 999
    assert grid.size < 70
    index = nearest(grid, 1000)
    assert np.all(np.abs(grid[index] - np.arange(1000)) <= np.maximum(0.05 * np.arange(1000), 1))


def records(seed, num=3000):
    """Half from a Gaussian on branch 1, half from one on branch 0; the kernel explains none."""
    rng = np.random.default_rng(seed)
    branch = rng.integers(0, 2, num)
    points = rng.normal(0.0, 1.0, (num, 2)) * [1.0, 0.5] + np.where(branch, 2.0, -2.0)[:, None]
    return RecordsAtTime(points, branch, branch, np.full(num, -50.0), np.zeros(num))


def test_em_finds_the_gaussians_and_improves():
    slots = gaussian_slots(2, 2)
    assert slots.tolist() == [0, 1, 1, 0, 1]
    (fit,) = fit_times(0, [records(1)], slots, 1)
    np.testing.assert_allclose(fit.means[0], [-2.0, -2.0], atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariances[0])), [1.0, 0.5], atol=0.05)
    assert fit.weights[0] < 1e-3
    entropy = np.log(2) + stats.norm.entropy() + stats.norm(0, 0.5).entropy()
    assert abs(mean_log_joint(fit, records(2), slots) + entropy) < 0.05
    worse = fit._replace(means=fit.means + 0.5)
    better = em_step(worse, fit, records(1), slots)
    scores = [mean_log_joint(m, records(1), slots) for m in (worse, better)]
    assert scores[0] + 0.1 < scores[1]


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_constant(scale):
    """By importance sampling, and by the bridge where the pilots sit in a far corner."""
    rng = np.random.default_rng(0)
    last = rng.normal(0.3, scale, (2000, 3))
    log_gamma = lambda x: stats.norm.logpdf(x, 0.3, scale).sum(axis=1) + 4.2
    assert abs(estimate_log_z(1, last, log_gamma(last), log_gamma) - 4.2) < 0.1
    narrow = lambda x: np.where(np.abs(x[:, 0] - 0.3) < 1e-5 * scale, 4.2, -np.inf)
    with pytest.raises(ValueError, match="do not reach the posterior"):
        estimate_log_z(1, last + 9.0, narrow(last + 9.0), narrow)


def test_stragglers_are_reported():
    rng = np.random.default_rng(0)
    fine = -0.5 * rng.chisquare(3, 5000)
    moves = rng.uniform(0.3, 0.5, 5000)
    assert describe_stragglers(fine, moves, 3, 100) == ()
    fine[7] -= 300.0
    moves[[4, 5, 6]] = 0.0
    low, still = describe_stragglers(fine, moves, 3, 100)
    assert low.startswith("1 of 5000 pilot chains (0.02%) end where the log density")
    assert still.startswith(
        "3 of 5000 pilot chains (0.06%) did not move at all in the last 50 steps"
    )
