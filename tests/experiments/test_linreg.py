"""The true divergence of the MH chain, and that the experiment's algorithms are what they claim."""

import jax
import numpy as np
import pytest

from aide.experiments.linreg import all_data, fit_variational, line_posterior, true_mh_divergence
from aide.problems import LinearRegression


def direct_divergence(model, num_steps, num_nodes=41, half_width=5.0):
    """The same chain as a full transition matrix on a coarse grid, without sorting."""
    axis = np.linspace(-half_width, half_width, num_nodes)
    nodes = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    prior = np.exp(-0.5 * np.sum(nodes**2, axis=1))
    prior /= prior.sum()
    errors = np.asarray(model.y) - (nodes[:, :1] + nodes[:, 1:] * np.asarray(model.x))
    likelihood = np.exp(-0.5 * np.sum(errors**2, axis=1))
    kernel = prior[None] * np.minimum(1.0, likelihood[None] / likelihood[:, None])
    kernel += np.diag(1.0 - kernel.sum(axis=1))
    law = prior @ np.linalg.matrix_power(kernel, num_steps)
    posterior = prior * likelihood / np.sum(prior * likelihood)
    return np.sum((law - posterior) * (np.log(law) - np.log(posterior)))


@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_sorted_recursion_equals_the_transition_matrix(num_steps):
    model = LinearRegression()
    fast = true_mh_divergence(model, [num_steps], num_nodes=41, half_width=5.0)[0]
    assert abs(fast - direct_divergence(model, num_steps)) < 1e-9


def test_starts_at_the_priors_divergence_and_vanishes():
    values = true_mh_divergence(LinearRegression(), [0, 1, 2, 64])
    assert abs(values[0] - 8.1728) < 5e-5
    assert np.all(np.diff(values) < 0)
    assert values[-1] < 1e-6


def test_lines_have_the_models_densities(x64):
    model = LinearRegression()
    line = (jax.numpy.asarray(0.3), jax.numpy.asarray(-0.7))
    state = jax.numpy.stack(line)
    assert abs(all_data(model)(line) - model.log_joint(state)) < 1e-12
    expected = model.posterior().log_density(state)
    assert abs(line_posterior(model).log_density(line) - expected) < 1e-12


@pytest.mark.full
def test_variational_fit_approaches_the_posterior_mean():
    model = LinearRegression()
    few = fit_variational(jax.random.key(0), model, 10).log_density
    many = fit_variational(jax.random.key(0), model, 10_000).log_density
    mean = tuple(np.asarray(model.moments()[0]))
    assert many(mean) > few(mean)
