"""Unadjusted annealing, refined: bounds that are tight, files, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support.learned import annealed_langevin, tilted_langevin

import aide
from aide._core.types import TARGET
from aide.engine.runners.choose import run_pairs
from aide.learned.models.tilted import TiltedKernel
from aide.problems.distributions import Normal

KEY = jax.random.key(1)


def looseness(algorithm, num_runs=200):
    own, fresh, _ = run_pairs(jax.random.key(5), algorithm, TARGET, num_runs)
    gap = own - fresh
    return gap.mean(), gap.std(ddof=1) / num_runs**0.5


def test_the_reverse_density_has_mass_one():
    grid = np.linspace(-12.0, 12.0, 4001)
    model = TiltedKernel.of(
        np.eye(1), np.ones(1), np.full((1, 1), 0.3), np.array([0.2]), np.full((1, 1), 1.4), 0.2
    )
    with jax.enable_x64(True):
        y, none = jnp.full((1, grid.size), 0.7), jnp.zeros(grid.size)
        scores, log_q = model.score(y, none)
        nothing = (none.astype(int), jnp.ones((1, grid.size), bool), none)
        log_joint = np.asarray(model.log_joint(scores, y, jnp.asarray(grid)[None], *nothing))
    assert abs(np.trapezoid(np.exp(log_joint - np.asarray(log_q)), grid) - 1.0) < 1e-9


def test_a_fit_is_for_as_many_steps():
    right = tilted_langevin("underdamped", 2)
    short = right.algorithm.at_steps(np.arange(2))
    with pytest.raises(ValueError, match="this fit is for 4 steps"):
        dataclasses.replace(right, algorithm=short)


def test_fits_of_tilted_models_are_stored(tmp_path):
    fit = tilted_langevin("underdamped", 2).fit
    fit.save(tmp_path / "fit.eqx")
    again = aide.learned.load_reverse(tmp_path / "fit.eqx")
    assert isinstance(again.models[0], TiltedKernel)
    same = jax.tree.map(np.array_equal, fit.models[0], again.models[0])
    assert all(jax.tree.leaves(same))
    refined = aide.refine(None, annealed_langevin("underdamped"), fit=again, num_reverse=3)
    assert refined.num_reverse == 3


def gaussian_output(num_steps, step):
    """Mean and variance after Langevin steps from N(1, 2^2) to N(0, 0.5^2) along temperatures."""
    mean, variance = 1.0, 4.0
    for beta in np.arange(1, num_steps + 1) / num_steps:
        precision = (1 - beta) / 4.0 + beta * 4.0
        centre = (1 - beta) / 4.0 / precision
        factor = 1 - 0.5 * step**2 * precision
        mean, variance = centre + factor * (mean - centre), factor**2 * variance + step**2
    return mean, variance


@pytest.mark.full
@pytest.mark.parametrize("num_reverse", [1, 10])
def test_the_density_of_a_gaussian_run_is_found(num_reverse):
    r"""All laws are Gaussian, so that tilted models hold exactly: $\xi$ is nearly $q(x)$."""
    size, num_steps, step = 6, 12, 0.3
    start, end = Normal(np.ones(size), 2.0), Normal(np.zeros(size), 0.5)
    algorithm = aide.annealed_langevin(
        start, end.log_prob, kernel=aide.kernels.Ula(step), num_steps=num_steps
    )
    refined = aide.refine(KEY, algorithm, num_reverse=num_reverse)
    assert isinstance(refined.fit.models[0], TiltedKernel)
    gold = aide.Tractable.of(end)
    draws = aide.draw(KEY, gold, refined, num_gold=50, num_target=200, keep_values=True)
    mean, variance = gaussian_output(num_steps, step)
    log_q = stats.norm.logpdf(np.asarray(draws.target.values), mean, variance**0.5).sum(axis=1)
    excess = draws.target.own[:, 0] - log_q
    assert abs(excess.mean()) < 0.1 + 4 * excess.std() / 200**0.5
    assert excess.std() < 0.6


@pytest.mark.full
@pytest.mark.parametrize("kind", ["overdamped", "underdamped"])
def test_refined_annealing_is_tight_in_ten_dimensions(kind):
    kernel = aide.kernels.Ula(0.3)
    if kind == "underdamped":
        kernel = aide.kernels.UnderdampedLangevin(0.3, 0.7)
    start, end = Normal(np.ones(10), 2.0), Normal(np.zeros(10), 0.5)
    algorithm = aide.annealed_langevin(start, end.log_prob, kernel=kernel, num_steps=16)
    canonical, _ = looseness(algorithm)
    refined, error = looseness(aide.refine(KEY, algorithm, num_reverse=50))
    assert canonical > 1.0
    assert refined < 0.1 + 3 * error


@pytest.mark.full
def test_annealed_importance_sampling_is_tight_in_ten_dimensions():
    """A mixture leaves 3.7 nats with as many particles."""
    posterior = Normal(np.ones(10), 0.3)
    algorithm = aide.ais(
        Normal(np.ones(10), 3.0),
        posterior.log_prob,
        kernel=aide.kernels.Mala(0.25),
        num_temperatures=20,
    )
    refined = aide.refine(KEY, algorithm, num_reverse=100)
    assert isinstance(refined.fit.models[0], TiltedKernel)
    found, error = looseness(refined)
    assert found < 0.15 + 3 * error
