"""Draws of the start that known modes do not explain, and modes that are found through them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.traps import TRAPS

from aide.engine.programs.map_runs import map_runs
from aide.gold_standards.pilots.pilot import PilotedPath
from aide.gold_standards.pilots.population import Path, Population, start_particle
from aide.gold_standards.starts import searching
from aide.gold_standards.starts.ascent import UNEXPLAINED, Ascent, Screen, residual_at_start
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.searching import Search
from aide.gold_standards.starts.tails import inverses_of, log_student_mixture
from aide.problems.distributions import Normal

START = Normal(np.zeros(2), 3.0)
WIDE = Mode(float(np.log(0.5)), np.zeros(2), 1.5 * np.eye(2))
PEAK = Mode(float(np.log(0.5)), np.array([2.0, 0.0]), 0.03 * np.eye(2))
TILTED = Mode(-3.0, np.array([1.0, -2.0]), np.array([[0.5, 0.0], [0.2, 0.1]]))
"""Two modes of half of the mass, widths 1 and 0.02, and one that has nothing to do with them."""
BESIDE = TRAPS["narrow beside wide, 2-D"]()


def screen(log_joint, modes):
    ascent = Ascent(Path(START, log_joint), np.zeros(2), np.eye(2), np.zeros(2))
    return Screen.of(ascent, modes)


def draws_of(key, runs):
    """From which climbs would set out."""
    return map_runs(start_particle, Path(START, START.log_prob), key, (runs,), what="it")[1]


@pytest.mark.parametrize("modes", [(WIDE,), (WIDE, TILTED), (WIDE, TILTED, PEAK)])
def test_residuals_of_a_mixture_of_known_modes_are_zero(modes):
    """One, two and three modes: and all draws are unexplained a little above the threshold."""
    masses, means, factors = (np.array(part) for part in zip(*(m[:3] for m in modes), strict=True))
    mixture = lambda x, up: up + log_student_mixture(x, np.exp(masses), means, inverses_of(factors))
    runs = (np.arange(50, dtype=np.uint32),)
    for above in (0.0, UNEXPLAINED + 0.01):
        one = screen(lambda x, up=above: mixture(x, up), modes)
        found = map_runs(residual_at_start, one, jax.random.key(0), runs, what="log_joint")
        np.testing.assert_allclose(found, above, atol=1e-9)
        assert len(one.worst_runs(jax.random.key(0), 50, 40)) == (40 if above else 0)


def test_infinite_log_densities_and_nan_are_explained():
    """A third is impossible, a third has no value, a third is above what the mode explains."""

    def log_joint(x):
        lost = jnp.where(x[0] > 1.0, jnp.nan, -jnp.inf)
        return jnp.where(jnp.abs(x[0]) > 1.0, lost, 5.0)

    one, key = screen(log_joint, (WIDE,)), jax.random.key(3)
    inside = np.flatnonzero(np.abs(draws_of(key, np.arange(60))[:, 0]) <= 1.0)
    assert 0 < len(inside) < 60
    assert sorted(one.worst_runs(key, 60, 60)) == inside.tolist()


def test_draws_at_a_peak_stand_out_for_every_key():
    """Beside a wide mode that is known; not if the peak is known too."""
    one, both = (screen(BESIDE.log_joint, modes) for modes in ((WIDE,), (WIDE, PEAK)))
    for number in range(10):
        key = jax.random.key(number)
        runs = one.worst_runs(key, searching.MOST_SCREENED, 64)
        assert len(runs) > 0
        draws = draws_of(key, np.resize(runs, 64))  # one shape, one program
        assert np.all(np.linalg.norm(draws - PEAK.mean, axis=1) < 0.1)
        if number < 3:
            assert len(both.worst_runs(key, searching.MOST_SCREENED, 64)) == 0


def found_beside(seed):
    """Whether a search that is given pilots in the wide mode alone finds the peak."""
    points = np.random.default_rng(4).normal(size=(1000, 2))
    population = Population(points, points, -0.5 * np.sum(points**2, axis=1))
    path = Path(BESIDE.start, BESIDE.log_joint)
    modes = Search(jax.random.key(seed), path, PilotedPath((), population, 500_000)).find(5e7)
    np.testing.assert_allclose(modes[0].mean, 0.0, atol=1e-3)
    if len(modes) == 1:
        return False
    np.testing.assert_allclose(modes[1].mean, PEAK.mean, atol=1e-3)
    np.testing.assert_allclose([mode.log_mass for mode in modes], np.log(0.5), atol=0.2)
    return True


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 10))]
)
def test_a_peak_beside_a_wide_mode_is_found(seed):
    """Climbs from draws at the peak end inside of the wide mode: their height tells them apart."""
    assert found_beside(seed)


@pytest.mark.full
def test_without_screening_the_peak_is_missed(monkeypatch):
    monkeypatch.setattr(searching, "MOST_SCREENS", 0)
    assert sum(not found_beside(seed) for seed in range(10)) >= 3
