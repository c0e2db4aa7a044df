r"""Kernels in other coordinates: the map, its volume, and the law they leave invariant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.kernels import Hmc, InCoordinates, RandomWalk, ScaledCoordinates

LOCATIONS = np.array([[0.0, 0.0, 0.0], [0.7, 0.0, 0.0], [-0.2, 0.0, 0.0]])
SLOPES = np.array([[0.0, 0.0, 0.0], [0.9, 0.0, 0.0], [0.3, 0.0, 0.0]])
STRAIGHT = ScaledCoordinates(LOCATIONS, SLOPES, np.array([0.4, 0.0, 0.0]))
X = np.array([1.3, -0.6, 2.1])


def test_there_and_back():
    with jax.enable_x64(True):
        z = STRAIGHT.away(jnp.asarray(X))
        np.testing.assert_allclose(STRAIGHT.back(z), X, rtol=1e-14)
        jacobian = jax.jacobian(STRAIGHT.back)(z)
        expected = np.linalg.slogdet(jacobian)[1]
        assert float(STRAIGHT.log_volume(z)) == pytest.approx(float(expected), rel=1e-12)


def test_a_child_that_is_a_parent_is_refused():
    slopes = SLOPES.copy()
    slopes[2] = [0.0, 0.5, 0.0]
    with pytest.raises(ValueError, match="coordinate 1 is a child"):
        ScaledCoordinates(LOCATIONS, slopes, np.zeros(3))


def _funnel(x):
    """A scale that depends on the first coordinate; a state of two parts."""
    scale = jnp.exp(0.9 * x["top"])
    low = -0.5 * ((x["low"] - 0.7 * x["top"]) / scale) ** 2 - jnp.log(scale)
    return -0.5 * x["top"] ** 2 + jnp.sum(low)


def test_a_step_is_that_of_the_kernel_on_the_coordinates():
    x = {"low": np.array([1.0, -0.4]), "top": np.array(0.3)}
    slopes = np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.9], [0.0, 0.0, 0.0]])
    coordinates = ScaledCoordinates(0.7 / 0.9 * slopes, slopes, np.zeros(3))
    inner = Hmc(0.3, 5)
    kernel, key = InCoordinates(coordinates, inner), jax.random.key(2)
    with jax.enable_x64(True):
        moved = kernel.step(key, _funnel, x)
        seen, share = kernel.observe_step(key, _funnel, x)
        z = coordinates.away(jnp.array([1.0, -0.4, 0.3]))
        round_ = lambda z: -0.5 * jnp.sum(z**2)  # what the funnel is there, up to a constant
        expected = coordinates.back(inner.step(key, round_, z))
    np.testing.assert_allclose(np.append(moved["low"], moved["top"]), expected, rtol=1e-12)
    jax.tree.map(np.testing.assert_array_equal, moved, seen)
    assert share.shape == (1,)


class NoVolume(ScaledCoordinates):
    """Wrong on purpose: the volume is forgotten."""

    def log_volume(self, z):
        return jnp.zeros(())


def _log_density(x):
    return -0.5 * x[0] ** 2 - 0.5 * (x[1] * jnp.exp(-0.5 * x[0])) ** 2 - 0.5 * x[0]


def _draw(key):
    z = jax.random.normal(key, (2,))
    return jnp.stack([z[0], jnp.exp(0.5 * z[0]) * z[1]])


EXACT = aide.Tractable(_draw, lambda x: _log_density(x) - np.log(2 * np.pi))


@pytest.mark.parametrize("family", [ScaledCoordinates, NoVolume])
def test_the_density_is_left_invariant_and_forgetting_the_volume_is_found(family):
    slopes = np.array([[0.0, 0.0], [1.2, 0.0]])
    kernel = InCoordinates(family(np.zeros((2, 2)), slopes, np.zeros(2)), RandomWalk(0.9))
    found = aide.check_kernel(jax.random.key(5), kernel, _log_density, EXACT)
    assert found.passed == (family is ScaledCoordinates)
