"""Tilts of Gaussian laws, against closed forms (NumPy alone)."""

import numpy as np

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
