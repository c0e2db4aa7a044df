"""Uniforms are those of `jax.random`, bit for bit, however they are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from aide._core.random import normal_quantile, random_index, run_key, standard_uniform

KEY = jax.random.key(20)


@pytest.mark.parametrize("shape", [(), pytest.param((5,), marks=pytest.mark.full), (3, 4), (0,)])
@pytest.mark.parametrize(
    ("precise", "dtype"),
    [(False, "f4"), (True, "f8"), pytest.param(True, "f4", marks=pytest.mark.full)],
)
@pytest.mark.full
def test_the_bits_of_jax(shape, precise, dtype):
    with jax.enable_x64(precise):
        keys = jax.random.split(KEY, 6)
        own = lambda key: standard_uniform(key, shape, jnp.dtype(dtype))
        theirs = lambda key: jax.random.uniform(key, shape, jnp.dtype(dtype))
        np.testing.assert_array_equal(own(KEY), theirs(KEY))
        np.testing.assert_array_equal(jax.vmap(own)(keys), jax.jit(jax.vmap(theirs))(keys))
        assert own(KEY).dtype == dtype


def test_other_generators_and_old_keys():
    rbg = jax.random.key(3, impl="rbg")
    np.testing.assert_array_equal(standard_uniform(rbg, (4,)), jax.random.uniform(rbg, (4,)))
    old = jax.random.PRNGKey(5)
    np.testing.assert_array_equal(standard_uniform(old, (4,)), jax.random.uniform(old, (4,)))


def test_another_key_gives_other_numbers():
    other = jax.random.fold_in(KEY, 1)
    assert not np.array_equal(standard_uniform(KEY, (4,)), jax.random.uniform(other, (4,)))


def test_normal_quantiles_are_those_of_scipy(x64):
    tails = np.geomspace(2.0**-53, 0.5, 2000)
    points = np.concatenate([tails, 1 - tails, np.linspace(0.01, 0.99, 999), [0.075, 0.925]])
    found = np.asarray(normal_quantile(jnp.asarray(points)), float)
    np.testing.assert_allclose(found, special.ndtri(points), rtol=5e-15, atol=1e-15)
    assert np.abs(found / 1.001 - special.ndtri(points)).max() > 1e-3


ALSO = [pytest.param(num, marks=pytest.mark.full) for num in (1, 2, 2**31 - 1)]


@pytest.mark.parametrize("num", [33, *ALSO])
def test_indices_are_those_of_jax(num):
    keys = jax.random.split(KEY, 200)
    own = jax.vmap(lambda key: random_index(key, num))(keys)
    theirs = jax.vmap(lambda key: jax.random.randint(key, (), 0, num, jnp.int32))(keys)
    np.testing.assert_array_equal(own, theirs)
    assert own.dtype == theirs.dtype
    rbg = jax.random.key(3, impl="rbg")
    assert random_index(rbg, num) == jax.random.randint(rbg, (), 0, num, jnp.int32)


@pytest.mark.parametrize("run", [0, 5, 2**32 - 1])
def test_keys_of_runs_are_folded_as_jax_does(run):
    theirs = jax.random.fold_in(jax.random.fold_in(KEY, run), 3)
    own = run_key(KEY, np.uint32(run), 3)
    np.testing.assert_array_equal(jax.random.key_data(own), jax.random.key_data(theirs))


def test_nan_has_no_quantile():
    assert np.isnan(normal_quantile(jnp.array([jnp.nan]))).all()
