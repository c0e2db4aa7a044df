"""The pieces of the mixture: special functions, predictive density, statistics of clusters."""

import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from scipy import special

from aide.problems.dpmm.clusters import (
    Clusters,
    add_datum,
    find_rows,
    gather_clusters,
    half_step,
    log,
    log_gamma,
    log_predictive,
    remove_datum,
)
from aide.problems.dpmm.updates import NAMES, from_value, log_prior, to_value


def test_statistics_of_clusters(x64):
    rng = np.random.default_rng(5)
    y, labels = rng.normal(3.0, 1.0, 8), rng.integers(0, 4, (8, 30))
    size, mean, spread = gather_clusters(jnp.asarray(labels), jnp.asarray(y), 6)
    for lane in range(30):
        for slot in range(8):
            own = y[:6][labels[:6, lane] == slot]
            expected = (own.size, own.mean(), own.var() * own.size) if own.size else (0, 0, 0)
            found = [float(table[slot, lane]) for table in (size, mean, spread)]
            assert found == pytest.approx(expected, abs=1e-12)


def test_special_functions(x64):
    rng = np.random.default_rng(6)
    x = np.concatenate([np.exp(rng.uniform(-36, 7, 50_000)), 1 + rng.normal(0, 1e-6, 1000)])
    assert np.max(np.abs(log(jnp.asarray(x)) - np.log(x))) < 1e-14
    error = np.abs(log_gamma(jnp.asarray(x)) - special.gammaln(x))
    assert np.max(error / np.maximum(1.0, np.abs(special.gammaln(x)))) < 1e-13
    x = x[x < 50]
    square, rest = half_step(jnp.asarray(x))
    assert np.max(np.abs(0.5 * np.log(square) + rest - np.log(special.poch(x, 0.5)))) < 1e-12


def test_statistics_survive_many_changes(x64):
    """Data come and go a thousand times; what is left is what was there at first."""
    rng = np.random.default_rng(7)
    y = rng.normal(2.0, 1.0, 5)
    first = cluster = Clusters(*(jnp.asarray([v]) for v in (5.0, y.mean(), y.var() * 5)))
    for guest in rng.normal(2.0, 3.0, 1000):
        cluster = remove_datum(add_datum(cluster, guest), guest)
    for kept, fresh in zip(cluster, first, strict=True):
        assert float(kept[0]) == pytest.approx(float(fresh[0]), abs=1e-10)
    for datum in y:
        cluster = remove_datum(cluster, datum)
    assert all(float(part[0]) == 0.0 for part in cluster)


def test_rows_of_one_slot_per_lane(x64):
    tables = Clusters(*(jnp.arange(12.0).reshape(4, 3) + shift for shift in (0.0, 0.1, 0.2)))
    found = find_rows(tables, jnp.array([2, 0, 3]), 3)
    assert [float(v) for v in found.mean] == [6.1, 1.1, 0.0]


def test_predictive_density_is_a_ratio_of_marginals(x64):
    rng = np.random.default_rng(8)
    for num in (0, 1, 2, 9):
        value = reference.random_value(rng, 1)
        y, new = rng.normal(size=num), 1.7
        spread = y.var() * num if num else 0.0
        cluster = Clusters(
            *(jnp.asarray(v) for v in (float(num), y.mean() if num else 0.0, spread))
        )
        expected = reference.log_marginal(np.append(y, new), value)
        expected -= reference.log_marginal(y, value) if num else 0.0
        found = log_predictive(from_value(value), cluster, new)
        assert float(found) == pytest.approx(expected, abs=1e-10)


def test_prior_of_the_hyperparameters(x64):
    value = {"alpha": 0.3, "m": -1.2, "r": 2.5, "nu": 0.7, "s": 0.1}
    hyper = from_value(value)
    assert float(log_prior(hyper)) == pytest.approx(reference.log_prior(value), abs=1e-12)
    assert {name: float(v) for name, v in to_value(hyper).items()} == value
    for name in NAMES:
        outside = log_prior(from_value({**value, name: -1.0}))
        assert (outside == -np.inf) == (name != "m")
