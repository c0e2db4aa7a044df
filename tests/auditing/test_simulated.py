r"""`aide.audit_simulated` against closed forms: $x \sim N(0, 2^2)$, $y \sim N(x, 0.5^2)$."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.auditing.simulated import audit_simulated
from aide.engine.programs.programs import compile_quickly
from aide.problems.distributions import Normal

KEY = jax.random.key(3)
PRIOR_STD, NOISE_STD = 2.0, 0.5
VARIANCE = 1 / (1 / PRIOR_STD**2 + 1 / NOISE_STD**2)
STD = VARIANCE**0.5
LOG_EVIDENCE = -0.5 * np.log(2 * np.pi * np.e * (PRIOR_STD**2 + NOISE_STD**2))
"""The average of log p(y) over data sets."""


@pytest.fixture(autouse=True)
def _quick_compilation():
    with compile_quickly():
        yield


def sample_joint(key):
    key_x, key_y = jax.random.split(key)
    x = Normal(0.0, PRIOR_STD).sample(key_x)
    return x, Normal(x, NOISE_STD).sample(key_y)


class LogJoint(eqx.Module):
    """log p(x, y) with another noise, if one likes."""

    noise: float = NOISE_STD

    def __call__(self, x, y):
        return Normal(0.0, PRIOR_STD).log_prob(x) + Normal(x, self.noise).log_prob(y)


class Given(eqx.Module):
    """log p(x, y) at given data."""

    y: jax.Array

    def __call__(self, x):
        return LogJoint()(x, self.y)


class Fit(eqx.Module):
    """The posterior, moved by `shift` of its standard deviations and stretched."""

    shift: float = 0.0
    stretch: float = 1.0

    def __call__(self, y):
        mean = VARIANCE * y / NOISE_STD**2
        return aide.Tractable.of(Normal(mean + self.shift * STD, self.stretch * STD))


class Sir(eqx.Module):
    """Importance sampling with resampling."""

    num_particles: int = eqx.field(static=True)

    def __call__(self, y):
        return aide.sir(Normal(0.8 * y, 0.7), Given(y), num_particles=self.num_particles)


def divergence(shift, stretch):
    """Symmetrised KL between N(0, 1) and N(shift, stretch^2)."""
    return 0.5 * ((1 + shift**2) / stretch**2 + stretch**2 + shift**2) - 1


def known(value):
    assert value is not None
    return value


def test_exact_posterior_gives_exactly_nothing():
    result = audit_simulated(KEY, sample_joint, LogJoint(), Fit(), num_datasets=50)
    np.testing.assert_allclose(result.terms, 0.0, atol=1e-12)
    assert result.consistency is None  # too few data sets for a test
    low, high = known(result.log_evidence)
    assert abs(low.value - LOG_EVIDENCE) < Z_MAX * low.std_error
    assert low.value == pytest.approx(high.value, abs=1e-12)


AGAIN = [pytest.param(*pair, marks=pytest.mark.full) for pair in ((0.5, 1.0), (0.0, 0.7))]


@pytest.mark.parametrize(("shift", "stretch"), [(0.3, 1.4), *AGAIN])
@pytest.mark.full
def test_tractable_algorithms_meet_the_truth(shift, stretch):
    """The bound is an equality, whatever M."""
    truth = divergence(shift, stretch)
    for num_meta in (1, 3) if shift else (1,):
        result = audit_simulated(
            KEY, sample_joint, LogJoint(), Fit(shift, stretch), num_datasets=5000, num_meta=num_meta
        )
        assert abs(result.value - truth) < 4 * result.std_error
        assert abs(result.value - truth - 0.3) > 2 * Z_MAX * result.std_error
        assert result.consistent
        low, high = known(result.log_evidence)
        assert low.value - Z_MAX * low.std_error < LOG_EVIDENCE
        assert high.value + Z_MAX * high.std_error > LOG_EVIDENCE
        assert abs(result.looseness.value) < 1e-12


@pytest.mark.full
def test_sir_is_bounded_from_above_and_the_bound_falls():
    """More particles and more meta-inference lower it; with enough of both it vanishes."""
    values = {}
    for num, num_meta in ((3, 1), (3, 10), (200, 1)):
        result = audit_simulated(
            KEY, sample_joint, LogJoint(), Sir(num), num_datasets=3000, num_meta=num_meta
        )
        assert result.value > -Z_MAX * result.std_error
        assert result.consistent, result
        low, high = known(result.log_evidence)
        assert (
            low.value - Z_MAX * low.std_error < LOG_EVIDENCE < high.value + Z_MAX * high.std_error
        )
        values[num, num_meta] = result.value
    assert values[3, 1] > values[3, 10] > values[200, 1]
    assert values[200, 1] < 0.03


@pytest.mark.full
def test_another_model_is_rejected():
    """Wrong in the density alone, and in the algorithm too, where the bound itself sees nothing."""
    wrong = LogJoint(1.0)
    result = audit_simulated(KEY, sample_joint, wrong, Fit(), num_datasets=1000)
    assert known(result.consistency) < 1e-9
    assert not result.consistent
    assert "different models" in repr(result)

    def wrong_sir(y):
        return aide.sir(Normal(0.8 * y, 0.9), lambda x: wrong(x, y), num_particles=50)

    result = audit_simulated(KEY, sample_joint, wrong, wrong_sir, num_datasets=1000)
    assert result.value < 0.01
    assert known(result.consistency) < 1e-9
    assert audit_simulated(KEY, sample_joint, LogJoint(), Sir(3), num_datasets=1000).consistent


@pytest.mark.full
def test_one_by_one_where_data_sets_cannot_be_traced():
    """The same protocol; also for plain Python code."""
    traced = audit_simulated(KEY, sample_joint, LogJoint(), Fit(0.3, 1.4), num_datasets=40)

    def untraceable(y):
        float(y)
        return Fit(0.3, 1.4)(y)

    looped = audit_simulated(KEY, sample_joint, LogJoint(), untraceable, num_datasets=40)
    np.testing.assert_allclose(
        looped.pieces.exact_log_joint, traced.pieces.exact_log_joint, rtol=0, atol=1e-9
    )
    error = np.hypot(looped.std_error, traced.std_error)
    assert abs(looped.value - traced.value) < Z_MAX * error

    class PlainPython:
        log_z = 0.0

        def __init__(self, y):
            self.mean = VARIANCE * float(y) / NOISE_STD**2

        def simulate(self, rng):
            x = rng.normal(self.mean, STD)
            return x, self.regenerate(rng, x)

        def regenerate(self, rng, x):
            return -0.5 * ((x - self.mean) / STD) ** 2 - np.log(STD * np.sqrt(2 * np.pi))

    plain = lambda y: aide.PythonAlgorithm(PlainPython(y))
    result = audit_simulated(KEY, sample_joint, LogJoint(), plain, num_datasets=5, num_meta=2)
    np.testing.assert_allclose(result.terms, 0.0, atol=1e-9)


@pytest.mark.full
def test_unknown_constants_cancel():
    """Missing constants of log_joint and an unknown Z change nothing but the evidence bounds."""

    def shifted(x, y):
        return LogJoint()(x, y) + 3.0

    def unnormalised(y):
        right = Fit(0.5)(y)
        return aide.Tractable(right.sample, lambda x: right.log_density(x) + 1.0, log_z=None)

    one = audit_simulated(KEY, sample_joint, LogJoint(), Fit(0.5), num_datasets=30)
    two = audit_simulated(KEY, sample_joint, shifted, unnormalised, num_datasets=30)
    np.testing.assert_allclose(two.terms, one.terms, atol=1e-9)
    assert two.log_evidence is None


@pytest.mark.full
def test_errors_and_infinities_are_named():
    def run(joint: Any = sample_joint, density: Any = LogJoint(), algorithm: Any = Fit()):  # noqa: B008
        return audit_simulated(KEY, joint, density, algorithm, num_datasets=20)

    with pytest.raises(TypeError, match=r"sample_joint\(key\) must return \(x, y\)"):
        run(joint=lambda key: jnp.zeros(3))
    with pytest.raises(TypeError, match="algorithm_for.*must be an inference algorithm"):
        run(algorithm=lambda y: y)
    with pytest.raises(ValueError, match="log_joint is nan for .* first in data set"):
        run(density=lambda x, y: LogJoint()(x, y) + jnp.log(y))
    with pytest.raises(ValueError, match="describe different models"):
        run(density=lambda x, y: jnp.where(x > 0, LogJoint()(x, y), -jnp.inf))
    with pytest.raises(ValueError, match="same structure and shape"):
        run(joint=lambda key: (sample_joint(key)[0][None], sample_joint(key)[1]))
    with pytest.raises(ValueError, match="num_datasets must be an integer of at least 2"):
        audit_simulated(KEY, sample_joint, LogJoint(), Fit(), num_datasets=1)

    def half(y):
        density = lambda x: jnp.where(x > 0, jnp.log(2.0) + Normal(0.0, 1.0).log_prob(x), -jnp.inf)
        return aide.Tractable(lambda key: jnp.abs(jax.random.normal(key)), density)

    result = run(algorithm=half)
    assert result.value == np.inf
    assert "no mass" in repr(result)
