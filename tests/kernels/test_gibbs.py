"""A sweep hands the log density on, and does what its updates do one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide._core.random import derive_keys
from aide.kernels.gibbs import GibbsSite
from aide.kernels.retrace import NO_RECORD

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


OUTSIDE = [([3, 3, 2, 3], 2, 2), ([2, 3, 3, 1], -1, 0), ([3, 1, 3, 3], 1, 1)]
"""Numbers of values by site, with a value that one site (by position) does not take."""


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("num_values", "value", "site"), OUTSIDE)
def test_a_value_out_of_range_stays(num_values, value, site):
    """It is neither moved into the range, which would break the law, nor is it ever entered."""
    uniform, kernel = lambda x: jnp.zeros(()), aide.kernels.GibbsSites(range(4), num_values)
    x = jnp.zeros(SHAPE, int).ravel().at[site].set(value).reshape(SHAPE)
    for seed in range(20):
        x = kernel.step(jax.random.key(seed), uniform, x)
        rest = np.delete(np.ravel(x), site)
        assert np.ravel(x)[site] == value
        assert np.all((rest >= 0) & (rest < np.delete(num_values, site)))
    recorded = GibbsSite(site, 3, num_values[site]).record(jax.random.key(0), uniform, x)
    np.testing.assert_array_equal(recorded.value, x)
    assert recorded.branch == NO_RECORD
    back = GibbsSite(site, 3, num_values[site]).retrace(uniform, x, jnp.zeros(()), ())
    assert np.all(np.asarray(back.log_forward) == -np.inf)


@pytest.mark.full
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("reverse", [False, True])
def test_the_joint_law_is_invariant_for_sites_of_different_sizes(reverse):
    """Exactly, by enumeration: sum_x p(x) k(x, y) = p(y), with values outside of the ranges too."""
    table, sizes, sites = np.random.default_rng(5).normal(size=(4, 3)), (2, 3), [1, 0, 1]
    log_density = lambda x: jnp.asarray(table)[x[0], x[1]]
    kernel = aide.kernels.GibbsSites(sites, [sizes[site] for site in sites])
    kernel = kernel.reversal() if reverse else kernel
    states = [(a, b) for a in range(4) for b in range(3)]
    matrix = np.eye(12)
    for part in kernel.retraceable_parts():
        one = np.zeros((12, 12))
        for row, x in enumerate(states):
            for column, y in enumerate(states):
                found = part.retrace(log_density, jnp.array(y), log_density(jnp.array(y)), ())
                same = np.all(np.asarray(found.value) == np.array(x), axis=1)
                one[row, column] = np.sum(np.exp(np.asarray(found.log_forward))[same])
        site, num_own = int(np.asarray(part.site)), int(np.asarray(part.num_own))
        outside = np.array([x[site] >= num_own for x in states])
        np.testing.assert_array_equal(one[outside], 0.0)
        matrix = matrix @ (one + np.diag(outside.astype(float)))
    p = np.exp(table.ravel()) / np.exp(table).sum()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(p @ matrix, p, atol=1e-12)
    clamped = matrix.copy()  # the control: values outside are moved into the range
    clamped[2 * 3 :] = matrix[3 : 2 * 3].mean(axis=0)
    assert np.max(np.abs(p @ clamped - p)) > 1e-2
    draws = jax.vmap(lambda k: kernel.step(k, log_density, jnp.array([1, 2])))(
        jax.random.split(jax.random.key(1), 20_000)
    )
    counts = np.bincount(np.ravel_multi_index(np.asarray(draws).T, (4, 3)), minlength=12)
    expected = 20_000 * matrix[states.index((1, 2))]
    z = (counts - expected) / np.sqrt(np.maximum(expected, 1e-9))
    assert np.all(np.abs(z) < Z_MAX)


@pytest.mark.parametrize(
    ("num_values", "kind", "words"),
    [
        ([2, 3], ValueError, "got 2 numbers for 4 sites"),
        ([2, 3, 0, 1], ValueError, "every entry of num_values"),
        ([2.0, 3.0, 1.0, 1.0], TypeError, "must be integers"),
        (1, ValueError, "num_values"),
    ],
)
def test_errors(num_values, kind, words):
    with pytest.raises(kind, match=words):
        aide.kernels.GibbsSites(range(4), num_values)
