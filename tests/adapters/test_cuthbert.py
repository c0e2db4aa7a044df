"""cuthbert: the model of a filter, and the law of paths of a smoother."""

import itertools
from types import SimpleNamespace
from typing import Any

import cuthbert
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuthbert import discrete
from cuthbert.gaussian import kalman, moments, taylor
from cuthbert.smc import particle_filter
from cuthbertlib.resampling import multinomial
from support import Z_MAX

import aide

KEY = jax.random.key(8)
# In single precision, as users have them; a factor of a covariance need not be triangular (but for
# that of the first state: cuthbert 0.1.1 then computes another evidence).
MEAN, SPREAD = jnp.array([1.0, -1.0]), jnp.array([[1.0, 0.0], [0.3, 0.5]])
TURN, NOISE = jnp.array([[0.9, 0.2], [-0.1, 0.8]]), jnp.array([[0.4, 0.2], [0.0, -0.3]])
SEEN, ERROR = jnp.array([[1.0, 0.5]]), jnp.array([[0.7]])
DATA = np.array([[0.3], [1.1], [-0.4]])


def dynamics(model_inputs):
    return TURN, jnp.array([0.1, 0.0]), NOISE


def observed(model_inputs):
    return SEEN, jnp.zeros(1), ERROR, model_inputs


FILTERED = kalman.build_filter(MEAN, SPREAD, dynamics, observed)


@pytest.fixture(scope="module")
def linear():
    return SimpleNamespace(
        model=aide.cuthbert.state_space_model(FILTERED, DATA),
        paths=aide.cuthbert.smoothed_paths(FILTERED, kalman.build_smoother(dynamics), DATA),
    )


@pytest.mark.full
def test_the_smoother_of_a_linear_model_is_its_posterior(linear, x64):
    """Bayes: log p(x, y) - log p(x | y) is the log evidence, at any path."""
    paths = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4, 2)))
    gap = lambda x: linear.model.log_joint(x) - linear.paths.log_density(x)
    gaps = np.asarray(jax.jit(jax.vmap(gap))(paths))
    assert np.ptp(gaps) < 1e-9
    with jax.enable_x64(False):  # cuthbert does not promote
        states = cuthbert.filter(FILTERED, jnp.array(DATA), FILTERED.init_prepare())
    assert gaps[0] == pytest.approx(float(states.log_normalizing_constant[-1]), abs=1e-5)


@pytest.mark.full
def test_a_smoother_of_another_model_is_not(linear, x64):
    other = lambda model_inputs: (TURN, jnp.zeros(2), NOISE)
    wrong = aide.cuthbert.smoothed_paths(FILTERED, kalman.build_smoother(other), DATA)
    paths = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4, 2)))
    gap = lambda x: linear.model.log_joint(x) - wrong.log_density(x)
    assert np.ptp(np.asarray(jax.jit(jax.vmap(gap))(paths))) > 0.1


@pytest.mark.full
def test_functions_of_moments_are_the_model(linear, x64):
    """Those of a linear model, wherever the filter linearises."""
    step = lambda x: (TURN @ x + jnp.float32(np.array([0.1, 0.0])), NOISE)
    see = lambda x: (SEEN @ x, ERROR)
    dynamics_here = lambda state, model_inputs: (step, state.mean)
    observed_here = lambda state, model_inputs: (see, state.mean, model_inputs)
    filtered = moments.build_filter(MEAN, SPREAD, dynamics_here, observed_here)
    model = aide.cuthbert.state_space_model(filtered, DATA)
    path = jnp.asarray(np.random.default_rng(1).normal(size=(4, 2)))
    both = jax.jit(lambda x: (model.log_joint(x), linear.model.log_joint(x)))(path)
    assert float(both[0]) == pytest.approx(float(both[1]), abs=1e-6)


def test_paths_of_a_discrete_model_sum_to_the_evidence(x64):
    matrix, start = jnp.array([[0.7, 0.3], [0.2, 0.8]]), jnp.array([0.6, 0.4])
    tables = np.log(np.array([[0.9, 0.2], [0.1, 0.5], [0.3, 0.3]]))
    filtered = discrete.build_filter(
        start, lambda model_inputs: matrix, lambda model_inputs: model_inputs
    )
    model = aide.cuthbert.state_space_model(filtered, tables)
    paths = jnp.asarray(list(itertools.product((0, 1), repeat=4)))
    found = jax.nn.logsumexp(jax.jit(jax.vmap(model.log_joint))(paths))
    states = cuthbert.filter(filtered, tables, filtered.init_prepare())
    assert float(found) == pytest.approx(float(states.log_normalizing_constant[-1]), abs=1e-10)


def test_what_cannot_be_scored_is_refused():
    def refuses(filtered, message, data=DATA):
        with pytest.raises(ValueError, match=message):
            aide.cuthbert.state_space_model(filtered, data)

    start = lambda key: jax.random.normal(key)
    move = lambda key, state, model_inputs: state + jax.random.normal(key)
    score = lambda state_prev, state, model_inputs: -0.5 * (state - model_inputs[0]) ** 2
    by_particles = particle_filter.build_filter(start, move, score, 5, multinomial.resampling)
    refuses(by_particles, r"cuthbert\.smc is made of samplers")
    none: Any = None
    refuses(taylor.build_filter(none, none, none, none), "densities that cannot be sampled")
    flat = lambda model_inputs: (TURN, jnp.zeros(2), jnp.array([[0.4, 0.0], [0.0, 0.0]]))
    refuses(kalman.build_filter(MEAN, SPREAD, flat, observed), "noise .* to step 1 is singular")
    missing = np.array([[0.3], [np.nan], [0.1]])
    refuses(FILTERED, "observation at step 2 has no density", missing)
    refuses(FILTERED, "common leading time axis", 1.0)
    with pytest.raises(TypeError, match="expected a cuthbert Filter, got dict"):
        aide.cuthbert.state_space_model({}, DATA)  # pyrefly: ignore[bad-argument-type]
    with pytest.raises(ValueError, match=r"the filter is of cuthbert\.smc.*only Gaussian"):
        aide.cuthbert.smoothed_paths(by_particles, kalman.build_smoother(dynamics), DATA)


@pytest.mark.full
def test_exact_and_shifted_smoothers_and_a_particle_filter(linear):
    sizes = {"num_gold": 500, "num_target": 500}
    gold = aide.Tractable(linear.paths.sample, linear.model.log_joint)
    assert aide.estimate(KEY, gold, linear.paths, **sizes).value == pytest.approx(0.0, abs=1e-9)
    away = 0.3 * np.arange(8.0).reshape(4, 2)
    moved = aide.Tractable(
        lambda key: linear.paths.sample(key) + away, lambda x: linear.paths.log_density(x - away)
    )
    shifted = aide.estimate(KEY, gold, moved, **sizes)
    with jax.enable_x64(True):  # the law is Gaussian: (x - m)' H (x - m) for both together
        curve = jax.hessian(lambda x: -linear.paths.log_density(x.reshape(4, 2)))(jnp.zeros(8))
    truth = away.ravel() @ np.asarray(curve) @ away.ravel()
    assert abs(shifted.value - truth) < Z_MAX * shifted.std_error
    few, many = (aide.ParticleFilter(linear.model, num_particles=n) for n in (5, 100))
    found = aide.compare(KEY, gold, {"5": few, "100": many}, **sizes)
    assert found["100"].value < found["5"].value
    assert abs(found["100"].value) < 0.5 + Z_MAX * found["100"].std_error


@pytest.mark.full
def test_an_extended_smoother_is_measured():
    """It is exact where observations are linear in the state, and not where they are squared."""
    step = lambda x: (0.9 * x, 0.5 * jnp.eye(1))
    values = []
    for see in (lambda x: (x, 0.5 * jnp.eye(1)), lambda x: (x**2 / 2, 0.5 * jnp.eye(1))):
        see_here = lambda state, model_inputs, see=see: (see, state.mean, model_inputs)
        step_here = lambda state, model_inputs: (step, state.mean)
        filtered = moments.build_filter(np.array([1.0]), np.eye(1), step_here, see_here)
        data = np.array([[0.9], [0.6], [1.2], [0.8]])
        model = aide.cuthbert.state_space_model(filtered, data)
        fit = aide.cuthbert.smoothed_paths(filtered, moments.build_smoother(step_here), data)
        gold = aide.ParticleFilter(model, num_particles=1000)
        found = aide.estimate(KEY, gold, fit, num_gold=500, num_target=500)
        print(found)
        values.append((found.value, found.std_error))
    (exact, error), (approximate, other) = values
    assert abs(exact) < 0.1 + Z_MAX * error
    assert approximate > 0.1 + Z_MAX * other
