r"""Walks back that overflow: $e^x$ on the way from an outlying output, without an accept step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.recorders import PilotRuns, SmcRecorder, check_pilots
from aide.learned.records.statistics import gather_statistics
from aide.problems.distributions import Normal

KEY, START = jax.random.key(0), Normal(np.zeros(2), 2.0)


def log_joint(x):
    return jnp.sum(x - jnp.exp(x))


def langevin(step_size=0.5):
    kernel = aide.kernels.Ula(step_size)
    return aide.annealed_langevin(START, log_joint, kernel=kernel, num_steps=4)


@pytest.mark.parametrize("refined", [pytest.param(True, marks=pytest.mark.full), False])
def test_a_guess_that_overflows_has_weight_zero(refined):
    """Far out every guess does, or nearly: log xi is -inf or very small, never NaN."""
    algorithm = langevin()
    if refined:
        algorithm = aide.refine(KEY, algorithm, num_pilots=400, num_reverse=10)
    with jax.enable_x64(True):
        score = jax.jit(jax.vmap(algorithm.regenerate, (0, None)))
        keys = jax.random.split(KEY, 50)
        for place in (12.0, 30.0, 800.0):
            log_xi = np.asarray(score(keys, jnp.array([place, -place])))
            assert not np.isnan(log_xi).any()
            assert (log_xi < -100.0).all()
        # A control: where outputs lie guesses are possible.
        assert np.isfinite(score(keys, jnp.zeros(2))).any()


def test_a_state_that_overflows_is_named():
    """Forward runs of steps that are too large: the output itself is infinite."""
    with pytest.raises(ValueError, match="output itself is not finite.*step size"):
        aide.draw(KEY, langevin(40.0), langevin(40.0), num_gold=20, num_target=20, progress=False)


@pytest.mark.full
@pytest.mark.parametrize("num_particles", [1, 3])
def test_gradients_that_are_not_finite_do_not_stop_learning(num_particles):
    """Those of a root cut off at 0 are NaN below it; only proposals look at them."""
    cut = lambda x: jnp.sum(jnp.sqrt(jnp.maximum(x, 0.0)) - 0.5 * x**2)
    assert np.isnan(jax.grad(cut)(jnp.array([-1.0, 1.0]))).any()
    algorithm = aide.tempered_smc(
        START,
        cut,
        kernel=aide.kernels.Mala(0.6),
        num_particles=num_particles,
        num_temperatures=4,
    )
    recorder = SmcRecorder(algorithm)
    for with_curvature in (False, True):
        found = gather_statistics(KEY, recorder, 200, lambda done: None, with_curvature)
        assert np.isfinite(found.after).all()


def test_particles_outside_of_the_support_do_not_stop_learning():
    """Without resampling they keep their weight of zero at all temperatures."""
    cut = lambda x: jnp.where(jnp.all(x > -3.0), -0.5 * jnp.sum(x**2), -jnp.inf)
    path = {"kernel": aide.kernels.Mala(0.6), "num_temperatures": 3, "resampler": aide.smc.Never()}
    algorithm = aide.tempered_smc(Normal(np.zeros(1), 2.0), cut, num_particles=6, **path)
    found = gather_statistics(KEY, SmcRecorder(algorithm), 200, lambda done: None)
    assert np.isfinite(found.after).all()
    assert found.after[:, 0, 0, 0] == pytest.approx(found.count)  # weights sum to 1 in each pilot
    assert not found.dead.any()


def test_pilots_without_any_weight_are_refused_in_words():
    log_evidence = np.array([[0.0, -1.0], [0.0, -np.inf], [-1.0, -2.0]])
    states, ones = np.zeros((3, 2)), np.ones(3)
    pilots = PilotRuns((), states, ones, ones, log_evidence, log_evidence)
    with pytest.raises(ValueError, match="in 1 of 3 pilot runs all particle weights are zero"):
        check_pilots(pilots)
    check_pilots(pilots._replace(log_evidence=np.zeros((3, 2))))


def test_equal_weights_have_a_mean_weight():
    """All bins are at one place: the slope beyond them is 0."""
    fit = MeanWeights.learn(np.full((100, 2), -1e8), np.full((100, 2), -1e8))
    assert np.asarray(fit.slopes) == pytest.approx(0.0)
