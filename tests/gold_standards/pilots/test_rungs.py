"""HMC steps in a loop are the same transition as a `Cycle` of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.gold_standards.pilots.rungs import NUM_RUNGS, Rungs, with_room
from aide.gold_standards.pilots.tuners import HmcTuner
from aide.kernels import Cycle, Hmc, stack_kernels
from aide.kernels.coordinates import InCoordinates, Metric, ScaledCoordinates
from aide.problems.distributions import Normal

SIZES, LENGTHS, METRIC = [1.5, 0.7, 0.2], [3, 2, 5], Metric(np.array([1.0, 2.0]))
RUNGS = Rungs(SIZES, LENGTHS, METRIC)
CYCLE = Cycle(
    *(Hmc(size, jnp.asarray(num), METRIC) for size, num in zip(SIZES, LENGTHS, strict=True))
)


def log_density(x):
    return -0.5 * jnp.sum(x**2 / jnp.array([1.0, 4.0]))


@pytest.mark.parametrize("seed", range(2))
def test_the_same_numbers_as_a_cycle(seed):
    """With and without room for more, forwards and backwards; other lengths give other numbers."""
    key = jax.random.key(seed)
    with jax.enable_x64(True):
        x = jnp.array([0.3, -1.0])
        step = lambda kernel: np.asarray(kernel.step(key, log_density, x))
        roomy, num = with_room(RUNGS)
        assert num == 3
        assert isinstance(roomy, Rungs)
        np.testing.assert_allclose(step(RUNGS), step(CYCLE), rtol=1e-9)
        np.testing.assert_allclose(step(roomy), step(CYCLE), rtol=1e-9)
        np.testing.assert_allclose(step(RUNGS.reversal()), step(CYCLE.reversal()), rtol=1e-9)
        assert not np.allclose(step(Rungs(SIZES, [3, 2, 6], METRIC)), step(CYCLE))
        _, expected = CYCLE.observe_step(key, log_density, x)
        _, shares = roomy.observe_step(key, log_density, x)
        assert shares.shape == (NUM_RUNGS,)
        np.testing.assert_array_equal(shares[:num], expected)


def test_room_inside_of_coordinates():
    coordinates = ScaledCoordinates(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2))
    roomy, num = with_room(InCoordinates(coordinates, RUNGS))
    assert num == 3
    assert isinstance(roomy, InCoordinates)
    plain = Hmc(0.5, 2)
    assert with_room(plain) == (plain, None)


def test_a_path_whose_kernels_have_several_sizes():
    """A schedule of them makes a sampler that runs and runs backwards."""
    settings = np.array([[1.0, 2.0], [0.25, 3.0]])
    kernels = [HmcTuner(dense=False).kernel(settings * f, np.ones(2)) for f in (1.0, 0.5)]
    start = Normal(np.zeros(2), 3.0)
    end = lambda x: start.log_prob(x) - jnp.sum((x - 1.0) ** 2)
    smc = aide.tempered_smc(
        start, end, kernel=stack_kernels(kernels), num_particles=4, temperatures=[0.2, 0.5, 1.0]
    )
    value, log_xi = smc.simulate(jax.random.key(0))
    assert np.isfinite(log_xi)
    assert np.isfinite(smc.regenerate(jax.random.key(1), value))
