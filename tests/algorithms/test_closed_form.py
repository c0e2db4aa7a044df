r"""AIDE against answers that are known: the paper's regression, and the supplement's algorithm.

The supplement writes AIDE out for AIS as the gold standard and a variational fit as the target;
with the same keys the library must return the same terms.
"""

import jax
import numpy as np
import pytest
from support import Z_MAX, toys

import aide
from aide._core.random import CROSS_META, SIMULATE, run_key, stream_key
from aide._core.types import GOLD, TARGET
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems import LinearRegression
from aide.problems.distributions import Normal

KEY = jax.random.key(20)


def gaussian_kl(mean, cov, other_mean, other_cov):
    """KL(N(mean, cov) || N(other_mean, other_cov))."""
    shift = other_mean - mean
    trace = np.trace(np.linalg.solve(other_cov, cov))
    log_det = np.linalg.slogdet(other_cov)[1] - np.linalg.slogdet(cov)[1]
    return 0.5 * (trace + shift @ np.linalg.solve(other_cov, shift) - len(mean) + log_det)


def symmetrised_kl(one, other):
    return gaussian_kl(*one, *other) + gaussian_kl(*other, *one)


def regression_posterior():
    """Mean and covariance by NumPy alone."""
    design = np.array([[1.0, -2.0], [1.0, 2.0]])
    covariance = np.linalg.inv(np.eye(2) + design.T @ design)
    return covariance @ design.T @ np.array([-2.0, 2.0]), covariance


PRIOR = (np.zeros(2), np.eye(2))
FIT = (regression_posterior()[0], 0.81 * np.eye(2))


@pytest.mark.parametrize(
    ("name", "moments", "printed"),
    [
        pytest.param("prior", PRIOR, 8.1728, marks=pytest.mark.full),
        ("fit", FIT, 3.1343),
    ],
)
def test_regression(name, moments, printed):
    """The prior, and the best fit of independent normals with standard deviation 0.9."""
    exact = symmetrised_kl(regression_posterior(), moments)
    assert round(exact, 4) == printed
    problem = LinearRegression()
    mean, covariance = moments
    target = aide.Tractable.of(Normal(mean, np.sqrt(np.diag(covariance))), name)
    result = aide.estimate(KEY, problem.posterior(), target, num_gold=10_000, num_target=10_000)
    assert abs(result.value - exact) < 4 * result.std_error
    assert abs(result.value - (exact + 1.0)) > 2 * Z_MAX * result.std_error


FIT_TO_TOY = Normal(0.8, 0.6)


def written_out(key, ais, log_joint, log_fit, num_gold, num_target):
    r"""The supplement's algorithm: $\log\frac{p(x,y)}{q(x)\,\hat p(y)}$ at both kinds of output."""

    def at_gold(run):
        x, log_evidence = ais.forward(run_key(stream_key(key, GOLD, SIMULATE), run, 0))
        return log_joint(x) - log_fit(x) - log_evidence

    def at_target(run):
        x = FIT_TO_TOY.sample(run_key(stream_key(key, TARGET, SIMULATE), run, 0))
        log_evidence = ais.reverse(run_key(stream_key(key, TARGET, CROSS_META), run, 0), x)
        return log_joint(x) - log_fit(x) - log_evidence

    runs = np.arange(max(num_gold, num_target), dtype=np.uint32)
    gold = jax.jit(jax.vmap(at_gold), compiler_options=QUICK_OPTIONS)(runs[:num_gold])
    target = jax.jit(jax.vmap(at_target), compiler_options=QUICK_OPTIONS)(runs[:num_target])
    return np.asarray(gold), np.asarray(target)


@pytest.mark.full
@pytest.mark.usefixtures("x64")
def test_supplement_written_out():
    ais = toys.forward_reverse_ais()
    target = aide.Tractable.of(FIT_TO_TOY)
    result = aide.estimate(KEY, ais, target, num_gold=50, num_target=70)
    gold, other = written_out(KEY, ais, toys.log_joint, FIT_TO_TOY.log_prob, 50, 70)
    np.testing.assert_allclose(result.terms.gold, gold, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.terms.target, -other, rtol=0, atol=1e-9)
    assert result.value == pytest.approx(gold.mean() - other.mean(), abs=1e-9)
    assert np.ptp(gold) > 1.0  # the terms differ from run to run: agreement is no accident
