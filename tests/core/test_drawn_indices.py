"""`invert_cdf` finds the first index whose cumulative weight exceeds a point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide._core.random import draw_index, invert_cdf

SIZES = [1, 2, 3, 4, 8, 9, 64, 65, 1000, 1024]


def some_weights(num, seed=0):
    """Weights of very different size, a third of them zero (but never all)."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=num) ** 3
    weights[rng.random(num) < 1 / 3] = 0.0
    weights[num // 2] = 0.5
    return weights


def telling_points(cumulative):
    """Every cumulative weight, its neighbours in floating point, midpoints, 0, and the total."""
    starts = np.concatenate([[0.0], cumulative[:-1]])
    around = [np.nextafter(cumulative, -np.inf), cumulative, np.nextafter(cumulative, np.inf)]
    points = np.concatenate([*around, (starts + cumulative) / 2, [0.0]])
    return points[points >= 0.0]


@pytest.mark.parametrize("num", SIZES)
def test_invert_cdf_agrees_with_searchsorted(x64, num):
    cumulative = np.cumsum(some_weights(num))
    points = telling_points(cumulative)
    inside = points < cumulative[-1]
    found = np.asarray(invert_cdf(jnp.asarray(cumulative), jnp.asarray(points)))
    expected = np.searchsorted(cumulative, points, side="right")
    np.testing.assert_array_equal(found[inside], expected[inside])
    last = np.flatnonzero(some_weights(num))[-1]
    np.testing.assert_array_equal(found[~inside], last)


@pytest.mark.parametrize("num", SIZES)
def test_invert_cdf_never_returns_weight_zero(x64, num):
    weights = some_weights(num)
    cumulative = np.cumsum(weights)
    points = telling_points(cumulative)
    found = np.asarray(invert_cdf(jnp.asarray(cumulative), jnp.asarray(points)))
    assert (weights[found] > 0).all()


@pytest.mark.parametrize("num", SIZES)
def test_invert_cdf_stays_inside_when_all_weights_are_zero(x64, num):
    found = np.asarray(invert_cdf(jnp.zeros(num), jnp.zeros(4)))
    assert ((found >= 0) & (found < num)).all()


def test_shapes_of_points(x64):
    cumulative = jnp.asarray([0.25, 0.25, 1.0])
    points = jnp.asarray([[0.0, 0.2, 0.25], [0.5, 1.0, 2.0]])
    np.testing.assert_array_equal(invert_cdf(cumulative, points), [[0, 0, 2], [2, 2, 2]])
    assert int(invert_cdf(cumulative, jnp.asarray(0.1))) == 0


def test_draw_index_uses_one_uniform(x64, monkeypatch):
    weights = jnp.asarray([2.0, 0.0, 5.0, 1.0])
    midpoints = (np.arange(8) + 0.5) / 8
    drawn = []
    for point in midpoints:
        fixed = lambda key, shape, dtype, point=point: point
        monkeypatch.setattr("aide._core.random.standard_uniform", fixed)
        drawn.append(int(draw_index(jax.random.key(0), weights)))
    assert drawn == [0, 0, 2, 2, 2, 2, 2, 3]
