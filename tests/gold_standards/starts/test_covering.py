"""Starts that cover what pilots found: a mixture with a density that is its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX

import aide
from aide.auditing.audit import Widened
from aide.gold_standards.starts.tails import SHARE, Covering, draw_student, log_student
from aide.kernels import ScaledCoordinates
from aide.problems.distributions import Normal

BENT = ScaledCoordinates(
    np.array([[0.0, 0.0], [0.3, 0.0]]), np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([0.2, 0.0])
)
FACTOR = np.array([[0.8, 0.0], [0.2, 0.5]])


ONE = ([1.0], [[0.5, -0.2]], FACTOR[None])
THREE = (
    [0.2, 0.5, 0.3],
    [[0.5, -0.2], [1.5, 0.5], [0.8, 0.0]],
    np.stack([FACTOR, 0.6 * FACTOR, np.eye(2)]),
)


@pytest.mark.parametrize(
    ("near", "coordinates"), [pytest.param(ONE, None, marks=pytest.mark.full), (THREE, BENT)]
)
def test_draws_follow_the_density(near, coordinates):
    r"""$E_q[f/q] = 1$ for a density $f$ inside of it, and not for one that is $1.1 f$."""
    start = Covering(Normal(np.array([3.0, 1.0]), 0.7), *near, coordinates=coordinates)
    inside = Normal(np.array([1.0, 0.0]), 0.6)
    with jax.enable_x64(True):
        x = jax.vmap(start.sample)(jax.random.split(jax.random.key(2), 20_000))
        ratios = np.asarray(
            jax.vmap(lambda x: jnp.exp(inside.log_prob(x) - start.log_density(x)))(x)
        )
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - 1) < Z_MAX * error
    assert abs(1.1 * ratios.mean() - 1) > Z_MAX * error


def test_its_tails_are_those_of_t_and_a_share_is_the_start():
    start = Covering(Normal(np.full(2, 50.0), 0.1), [1.0], np.zeros((1, 2)), FACTOR[None])
    with jax.enable_x64(True):
        far, x = jnp.full(2, 50.0), jnp.array([0.4, -9.0])
        own = Normal(np.full(2, 50.0), 0.1).log_prob(far)
        assert float(start.log_density(far)) == pytest.approx(float(own + np.log(SHARE)), abs=1e-3)
        tails = log_student(x, jnp.zeros(2), jnp.linalg.inv(FACTOR)) + np.log1p(-SHARE)
        assert float(start.log_density(x)) == pytest.approx(float(tails), rel=1e-12)


def test_t_is_that_of_scipy():
    from scipy import stats

    law = stats.multivariate_t(np.array([1.0, 2.0]), FACTOR @ FACTOR.T, df=4)
    with jax.enable_x64(True):
        x = jnp.array([0.3, -1.2])
        found = log_student(x, jnp.array([1.0, 2.0]), jnp.linalg.inv(FACTOR))
        draws = jax.vmap(lambda k: draw_student(k, 2))(jax.random.split(jax.random.key(1), 20_000))
    assert float(found) == pytest.approx(law.logpdf(np.asarray(x)), rel=1e-12)
    inside = np.mean(np.sum(np.asarray(draws) ** 2, axis=1) < 2.0)
    expected = stats.f(2, 4).cdf(1.0)  # the squared length over the dimension
    assert abs(inside - expected) < Z_MAX * np.sqrt(expected * (1 - expected) / 20_000)


def test_a_start_without_a_value_far_outside_counts_as_zero():
    """As a Cauchy prior whose scale overflows: NaN there would end runs in an error."""
    broken = aide.Tractable(
        lambda key: jax.random.normal(key, (2,)),
        lambda x: jnp.where(x[0] > 50.0, jnp.nan, Normal(np.zeros(2), 1.0).log_prob(x)),
    )
    near = ([1.0], np.zeros((1, 2)), FACTOR[None])
    far, x = jnp.array([60.0, 0.0]), jnp.array([0.3, 0.1])
    assert bool(jnp.isnan(broken.log_density(far)))
    widened = Widened(broken, np.zeros(2), 1.0)
    assert float(widened.log_density(far)) == -np.inf
    assert float(widened.log_density(x)) == pytest.approx(float(broken.log_density(x)))
    for start in (Covering(broken, *near), Covering(widened, *near)):
        assert bool(jnp.isfinite(start.log_density(far)))
