"""Tilts of Gaussian laws, against closed forms (NumPy alone)."""

import numpy as np
import pytest

from aide.learned.fitting.tilts import Tilt, match, step_back

RNG = np.random.default_rng(0)
FOLDS = 4


def sums_of(states, slope):
    """Sums of (1, x)(1, x, g)^T per fold."""
    left = np.concatenate([np.ones((len(states), 1)), states], axis=1)
    right = np.concatenate([left, slope], axis=1)
    parts = zip(np.split(left, FOLDS), np.split(right, FOLDS), strict=True)
    return np.stack([one.T @ other for one, other in parts])


def draws(mean, covariance, num=40_000):
    return RNG.multivariate_normal(mean, covariance, num)


MEAN, COVARIANCE = np.array([0.5, -1.0]), np.array([[1.0, 0.6], [0.6, 2.0]])
PRECISION = np.linalg.inv(np.array([[0.5, -0.1], [-0.1, 0.8]]))


def test_score_matching_finds_a_gaussian():
    """Law N(m, C), density N(0, P^-1): Q = P - C^-1 and l = C^-1 m."""
    states = draws(MEAN, COVARIANCE)
    tilt = match(sums_of(states, -states @ PRECISION))
    inverse = np.linalg.inv(COVARIANCE)
    np.testing.assert_allclose(tilt.quadratic, PRECISION - inverse, atol=0.05)
    np.testing.assert_allclose(tilt.linear, inverse @ MEAN, atol=0.05)


def test_where_a_law_has_arrived_there_is_nothing_to_tilt():
    """Noise is shrunk away, most of it."""
    states = draws(np.zeros(2), np.linalg.inv(PRECISION), 400)
    tilt = match(sums_of(states, -states @ PRECISION))
    noise = np.linalg.inv(np.cov(states.T)) - PRECISION
    assert np.abs(tilt.quadratic).max() < 0.5 * np.abs(noise).max()


def test_the_step_back_of_a_gaussian_is_exact():
    r"""With x = A y + C z, z | y has precision I - C^T Q C, as completing the square says."""
    quadratic, linear = np.array([[0.3, -0.2], [-0.2, -0.5]]), np.array([0.4, 0.1])
    a, c, base = RNG.normal(size=(2, 2)), 0.5 * RNG.normal(size=(2, 2)), np.array([0.2, -0.3])
    y, z = RNG.normal(size=(100, 2)), RNG.normal(size=(100, 2))
    x = y @ a.T + z @ c.T + base
    left = np.concatenate([np.ones((100, 1)), y, z], axis=1)
    sums = left.T @ np.concatenate([left, x], axis=1)
    slope, shift, covariance = step_back(Tilt(quadratic, linear), sums)
    np.testing.assert_allclose(
        np.linalg.inv(covariance), np.eye(2) - c.T @ quadratic @ c, atol=1e-6
    )
    point, origin = np.array([0.7, -0.4]), slope @ np.array([0.7, -0.4]) + shift
    tilt = lambda z: 0.5 * (v := a @ point + c @ z + base) @ quadratic @ v + linear @ v
    log_target = lambda z: tilt(z) - 0.5 * z @ z
    steps = 1e-4 * np.eye(2)
    slopes = [(log_target(origin + s) - log_target(origin - s)) / 2e-4 for s in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)


MIX = np.array([[1.0, 0.4], [-0.3, 0.8]])
"""From independent coordinates to states."""


def lagging(power, num=40_000):
    r"""States, gradients and Hessians: the law is $\gamma^\rho N(0, 2^2)$, $\gamma$ skewed.

    In independent coordinates $\log\gamma = -e^u + 0.3u - u^2/2$.
    """
    grid = np.linspace(-9.0, 4.0, 20_001)
    log_law = power * (-np.exp(grid) + 0.3 * grid - 0.5 * grid**2) - 0.125 * grid**2
    cumulative = np.cumsum(np.exp(log_law - log_law.max()))
    u = np.interp(RNG.random((num, 2)) * cumulative[-1], cumulative, grid)
    back = np.linalg.inv(MIX)
    hessians = np.einsum("ia,ni,ib->nab", back, -np.exp(u) - 1.0, back)
    return u @ MIX.T, (-np.exp(u) + 0.3 - u) @ back, hessians


def sums_with_curvature(states, slopes, hessians):
    vectors = np.concatenate([np.ones((len(states), 1)), states, slopes], axis=1)
    signs = RNG.choice([-1.0, 1.0], states.shape)
    turned = np.einsum("nab,nb->na", hessians, signs)
    fold = lambda one, other: np.stack(
        [a.T @ b for a, b in zip(np.split(one, FOLDS), np.split(other, FOLDS), strict=True)]
    )
    return fold(vectors, vectors), fold(turned, signs)


@pytest.mark.parametrize("power", [0.3, 0.7])
def test_score_matching_finds_a_power(power):
    tilt = match(*sums_with_curvature(*lagging(power)))
    back = np.linalg.inv(MIX)
    assert abs(tilt.power - power) < 0.05
    np.testing.assert_allclose(tilt.quadratic, -0.25 * back.T @ back, atol=0.06)


def test_a_quadratic_alone_is_further_off():
    """The control: without the power, the tilt stands for much of the density."""
    sums, _ = sums_with_curvature(*lagging(0.3))
    tilt = match(sums)
    back = np.linalg.inv(MIX)
    assert tilt.power == 1.0
    assert np.abs(tilt.quadratic + 0.25 * back.T @ back).max() > 0.5


def test_a_law_that_has_arrived_has_power_one():
    grid = np.linspace(-9.0, 4.0, 20_001)
    cumulative = np.cumsum(np.exp(-np.exp(grid) + 0.3 * grid - 0.5 * grid**2))
    u = np.interp(RNG.random((4000, 2)) * cumulative[-1], cumulative, grid)
    hessians = np.einsum("ni,ij->nij", -np.exp(u) - 1.0, np.eye(2))
    tilt = match(*sums_with_curvature(u, -np.exp(u) + 0.3 - u, hessians))
    assert abs(tilt.power - 1.0) < 0.15
    assert np.abs(tilt.quadratic).max() < 0.3


def test_of_a_gaussian_no_power_is_taken():
    """Any would do, with a quadratic to match."""
    states = draws(MEAN, COVARIANCE)
    hessians = np.broadcast_to(-PRECISION, (len(states), 2, 2))
    tilt = match(*sums_with_curvature(states, -states @ PRECISION, hessians))
    assert tilt.power == 1.0
    np.testing.assert_allclose(tilt.quadratic, PRECISION - np.linalg.inv(COVARIANCE), atol=0.05)


def test_the_step_back_with_a_power_looks_at_the_gradient():
    """Of a Gaussian density it is the one with the quadratic that the power amounts to."""
    quadratic, linear = np.array([[0.3, -0.2], [-0.2, -0.5]]), np.array([0.4, 0.1])
    c, base = 0.3 * RNG.normal(size=(2, 2)), np.array([0.2, -0.3])
    a = np.eye(2) + 0.1 * RNG.normal(size=(2, 2))
    y, z = RNG.normal(size=(100, 2)), RNG.normal(size=(100, 2))
    left = np.concatenate([np.ones((100, 1)), y, z], axis=1)
    sums = left.T @ np.concatenate([left, y @ a.T + z @ c.T + base], axis=1)
    with_power = Tilt(quadratic, linear, 0.4, -PRECISION)
    slope, shift, covariance = step_back(with_power, sums)
    plain = step_back(Tilt(quadratic + 0.6 * PRECISION, linear), sums)
    np.testing.assert_allclose(covariance, plain[2], atol=1e-10)
    np.testing.assert_allclose(shift, plain[1], atol=1e-10)
    np.testing.assert_allclose(slope[:, :2] - slope[:, 2:] @ PRECISION, plain[0], atol=1e-10)
