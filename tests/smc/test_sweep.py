"""A recorded run is the run that `simulate` makes, and its path follows the ancestors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.learned import tempered

import aide
from aide.smc.sweep import slots_of_path, total_log_evidence


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "resampler", [pytest.param(None, marks=pytest.mark.full), aide.smc.Never()]
)
@pytest.mark.full
def test_the_recorded_run_is_the_run(resampler):
    """The path ends in the output; the last population holds the evidence of log xi."""
    smc, keys = tempered("walk", 3, resampler), jax.random.split(jax.random.key(4), 5)
    both = jax.vmap(lambda key: (smc.simulate(key), smc.record(key)))
    draws, (populations, path) = eqx.filter_jit(both)(keys)
    assert path.shape == (5, 3)
    np.testing.assert_array_equal(path[:, -1], draws.value)
    last = jax.tree.map(lambda leaf: leaf[:, -1], populations)
    log_evidence = jax.vmap(total_log_evidence)(last)
    log_xi = jax.vmap(toys.log_joint)(draws.value) - log_evidence
    np.testing.assert_allclose(log_xi, draws.log_xi, rtol=1e-12)
    slots = jnp.asarray(populations.retained)[:, :, None]
    chosen = jnp.take_along_axis(populations.particles, slots, 2)
    np.testing.assert_array_equal(chosen[:, :, 0], path)


def test_slots_follow_the_ancestors():
    ancestors = np.array([[0, 0, 1], [2, 1, 1]], np.int32)
    assert slots_of_path(jnp.asarray(ancestors), 0, 3).tolist() == [1, 2, 0]
    assert slots_of_path(jnp.asarray(ancestors), 2, 3).tolist() == [0, 1, 2]
    assert slots_of_path(None, 2, 3).tolist() == [2, 2, 2]
