r"""From pilots to a path: equal lengths, kernels in between."""

import jax
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.gold_standards.pilots.pilot import PilotedPath, Stage
from aide.gold_standards.pilots.population import Frame, Population, PopulationMoments
from aide.gold_standards.pilots.schedule import FEWEST_TEMPERATURES, STEP, make_recipe
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner
from aide.kernels.metropolis import RandomWalk
from aide.problems.distributions import Normal

NUM = 100


def pilot_of(length, settings, num=NUM):
    r"""A path with $\Lambda(\beta) = \Lambda\sqrt\beta$ and variances of $1/\beta$."""
    temperatures = (np.arange(1, num + 1) / num) ** 2
    stages = tuple(
        Stage(
            temperature=float(beta),
            distance=length / num / 2.0,
            time=4.0,
            frame=Frame(PopulationMoments(np.zeros(2), np.eye(2) / beta, 1e6)),
            settings=settings(beta),
            correlation=0.1,
        )
        for beta in temperatures
    )
    flat = np.zeros((1, 2))
    return PilotedPath(stages, Population(flat, flat, np.zeros(1)), 10)


def one_part(beta):
    return np.array([[0.5 * beta**-0.25, 3.0 + 5.0 * beta]])


def test_temperatures_of_equal_length_and_kernels_in_between():
    pilot = pilot_of(10.0, one_part)
    assert pilot.length == pytest.approx(10.0)
    recipe = make_recipe(pilot, HmcTuner(True))
    num = int(np.ceil(10.0 / STEP))
    assert len(recipe.temperatures) == num
    assert np.all(np.diff(recipe.temperatures) > 0)
    assert recipe.temperatures[0] > 0
    assert recipe.temperatures[-1] == 1.0
    np.testing.assert_allclose(np.sqrt(recipe.temperatures), np.arange(1, num + 1) / num, atol=2e-3)
    moved = recipe.temperatures[:-1]  # nothing moves at the last one
    assert recipe.settings.shape == (num - 1, 1, 2)
    late = moved > 0.02  # early ones lie between the first stages, far apart in logarithms
    np.testing.assert_allclose(recipe.settings[late, 0, 0], 0.5 * moved[late] ** -0.25, rtol=0.03)
    np.testing.assert_array_equal(recipe.settings[..., 1], np.round(recipe.settings[..., 1]))
    assert np.all(np.abs(recipe.settings[:, 0, 1] - (3 + 5 * moved)) <= 0.7)
    np.testing.assert_allclose(recipe.factors[late, 0, 0], moved[late] ** -0.5, rtol=0.03)
    cost = 2 + sum(recipe.settings[:, 0, 1] + 2)
    assert recipe.cost(HmcTuner(True)) == cost


def test_short_paths_have_a_few_temperatures_and_rivals_as_many():
    short = make_recipe(pilot_of(0.01, one_part), HmcTuner(False))
    assert len(short.temperatures) == FEWEST_TEMPERATURES
    assert short.factors.shape == (FEWEST_TEMPERATURES - 1, 2)
    assert len(make_recipe(pilot_of(0.01, one_part), HmcTuner(False), fewest=9).temperatures) == 9
    like = short._replace(num_particles=50)
    rival = make_recipe(pilot_of(10.0, one_part), HmcTuner(False), like)
    assert rival.temperatures.shape == short.temperatures.shape
    assert rival.num_particles == 50
    alone = make_recipe(pilot_of(0.0, one_part, num=1), HmcTuner(True))  # the start will do
    np.testing.assert_allclose(alone.temperatures, [0.25, 0.5, 0.75, 1.0])


def test_parts_are_completed_and_rivals_have_as_many():
    """Where one stage needed a smaller step, all get one; a rival with fewer gets it too."""

    def two_parts(beta):
        small = np.array([[0.05, 7.0]])
        return np.concatenate([one_part(beta), small]) if beta > 0.5 else one_part(beta)

    recipe = make_recipe(pilot_of(10.0, two_parts), HmcTuner(True))
    assert recipe.settings.shape[1:] == (2, 2)
    assert np.all(recipe.settings > 0)
    assert recipe.settings[0, 1, 1] == 1.0
    assert recipe.settings[-1, 1, 1] == 7.0
    rival = make_recipe(pilot_of(10.0, one_part), HmcTuner(True), recipe)
    assert rival.settings.shape == recipe.settings.shape


def test_kernels_without_numbers():
    given = GivenKernel(RandomWalk(0.5), 2.0, "your kernel")
    recipe = make_recipe(pilot_of(10.0, lambda beta: np.zeros((0, 2))), given)
    assert recipe.settings.shape == (19, 0, 2)
    assert recipe.cost(given) == 2.0 + 19 * 2.0


def test_half_of_the_temperatures_in_an_algorithm_of_the_same_shape():
    """Kernels make no step where a temperature is left out, and weights do not change there."""
    recipe = make_recipe(pilot_of(3.4, one_part), HmcTuner(True))
    half = recipe.halved()
    assert len(recipe.temperatures) == 7
    np.testing.assert_array_equal(half.temperatures[[0, 2, 4, 6]], recipe.temperatures[::2])
    np.testing.assert_allclose(half.temperatures[[1, 3, 5]], recipe.temperatures[2::2], rtol=1e-11)
    np.testing.assert_array_equal(half.settings[[1, 3, 5], 0, 1], 0.0)
    np.testing.assert_array_equal(half.settings[::2], recipe.settings[::2])
    assert np.all(np.diff(half.temperatures) > 0)
    even = make_recipe(pilot_of(2.9, one_part), HmcTuner(True))
    np.testing.assert_allclose(even.halved().temperatures[-2:], 1.0, rtol=1e-11)
    assert even.halved().settings[-1, 0, 1] == 0.0
    start, posterior = Normal(np.zeros(2), 2.0), Normal(np.full(2, 1.0), 0.5)
    one = half._replace(num_particles=1).build(start, posterior.log_prob, HmcTuner(True))
    kept = half._replace(
        num_particles=1,
        temperatures=half.temperatures[::2],
        settings=half.settings[::2],
        factors=half.factors[::2],
    ).build(start, posterior.log_prob, HmcTuner(True))
    full = recipe._replace(num_particles=1).build(start, posterior.log_prob, HmcTuner(True))
    values = []
    for number, each in enumerate((one, kept, full)):
        found = aide.diagnose(jax.random.key(min(number, 1)), each, num_runs=2000).log_evidence
        assert found is not None
        values.append(found)
    for power in (1, 2):  # one particle: log evidence is a sum over steps that both make
        first, second = (value**power for value in values[:2])
        error = np.hypot(first.std(), second.std()) / np.sqrt(2000)
        assert abs(first.mean() - second.mean()) < Z_MAX * error
    assert np.std(values[2]) < np.std(values[0])  # more steps: it scatters less
