"""A sweep hands the log density on, and does what its updates do one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide._core.random import derive_keys
from aide.kernels.gibbs import GibbsSite

SITES = [2, 0, 1, 3, 0]
SHAPE = (2, 2)


def table_of(num_values):
    """Log densities of all states: asymmetric, a few of them 0."""
    rng = np.random.default_rng(num_values)
    table = rng.normal(scale=2.0, size=(num_values,) * 4)
    table[rng.random(table.shape) < 0.2] = -np.inf
    table[(0,) * 4] = 1.0  # never all of them
    return table


def look_up(table):
    return lambda x: jnp.asarray(table)[tuple(x.ravel())]


def one_by_one(key, sites, num_values, log_density, x):
    for subkey, site in zip(derive_keys(key, len(sites)), sites, strict=True):
        x = GibbsSite(site, num_values).step(subkey, log_density, x)
    return x


def start(dtype=np.int64):
    """A state of positive density."""
    return jnp.zeros(SHAPE, dtype)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
@pytest.mark.parametrize("num_values", [2, 3])
def test_a_sweep_is_its_updates(num_values, dtype):
    log_density = look_up(table_of(num_values))
    kernel = aide.kernels.GibbsSites(SITES, num_values)
    keys = jax.random.split(jax.random.key(0), 200)

    def follow(step):
        def next_one(x, key):
            return (y := step(key, x)), y

        return jax.lax.scan(next_one, start(dtype), keys)[1]

    swept = follow(lambda key, x: kernel.step(key, log_density, x))
    single = follow(lambda key, x: one_by_one(key, SITES, num_values, log_density, x))
    assert swept.dtype == dtype
    np.testing.assert_array_equal(swept, single)
    assert len(np.unique(swept.reshape(200, -1), axis=0)) > 4  # it moves


@pytest.mark.usefixtures("x64")
def test_stale_densities_would_be_seen():
    """The control: the density of the sweep's start, for all of its updates."""
    log_density = look_up(table_of(3))
    sites = aide.kernels.GibbsSites(SITES, 3).sites

    def stale(key, x):
        here = log_density(x)
        for subkey, site in zip(derive_keys(key, len(sites)), sites, strict=True):
            x, _ = GibbsSite(site, 3).advance(subkey, log_density, x, here)
        return x

    keys, x = jax.random.split(jax.random.key(0), 200), start()
    swept = jax.jit(jax.vmap(lambda key: stale(key, x)))(keys)
    single = jax.jit(jax.vmap(lambda key: one_by_one(key, SITES, 3, log_density, x)))(keys)
    assert np.mean(np.any(swept != single, axis=(1, 2))) > 0.1


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("num_values", [2, 3])
def test_nan_is_entered_and_not_left(num_values):
    table = table_of(num_values)
    table[0, 0, 1, 0] = np.nan
    log_density, kernel = look_up(table), aide.kernels.GibbsSites(SITES, num_values)
    for seed in range(3):
        y = kernel.step(jax.random.key(seed), log_density, start())
        assert np.isnan(log_density(y))
        again = kernel.step(jax.random.key(seed), log_density, y)
        assert np.isnan(log_density(again))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("value", [-1, 5])
def test_a_value_out_of_range_is_left(value):
    x = jnp.full(SHAPE, value)
    uniform = lambda x: jnp.zeros(())
    y = aide.kernels.GibbsSites(range(4), 2).step(jax.random.key(0), uniform, x)
    assert np.all((np.asarray(y) >= 0) & (np.asarray(y) < 2))
