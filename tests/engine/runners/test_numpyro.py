r"""`Tractable.of` takes distributions as they come: scalar, batched, discrete, bounded.

Densities are compared with SciPy, in the engine and not only eagerly: NumPyro drops its own
support check when a distribution passes through a JAX transformation.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from support.pairs import gaussian, run

import aide
from aide.problems.distributions import Normal


def some(names, quick):
    """Those of `quick` always, the others in the full suite."""
    return [pytest.param(n, marks=() if n in quick else pytest.mark.full) for n in names]


COVARIANCE = np.array([[2.0, 0.3], [0.3, 1.0]])
CASES: dict[str, tuple[Any, Any]] = {
    "scalar": (dist.Normal(0.25, 1.5), lambda x: stats.norm.logpdf(x, 0.25, 1.5)),
    "integers": (dist.Normal(0, 2), lambda x: stats.norm.logpdf(x, 0, 2)),
    "batch": (dist.Normal(jnp.zeros(3), 1.0), lambda x: stats.norm.logpdf(x).sum()),
    "event": (
        dist.Normal(jnp.zeros(3), 2.0).to_event(1),
        lambda x: stats.norm.logpdf(x, 0, 2).sum(),
    ),
    "multivariate": (
        dist.MultivariateNormal(jnp.ones(2), jnp.asarray(COVARIANCE)),
        lambda x: stats.multivariate_normal.logpdf(x, np.ones(2), COVARIANCE),
    ),
    "categorical": (
        dist.Categorical(jnp.array([0.25, 0.125, 0.625])),
        lambda x: np.log([0.25, 0.125, 0.625])[x],
    ),
    "bernoulli": (
        dist.Bernoulli(jnp.array([0.25, 0.5, 0.75])),
        lambda x: stats.bernoulli.logpmf(x, [0.25, 0.5, 0.75]).sum(),
    ),
    "poisson": (dist.Poisson(3.0), lambda x: stats.poisson.logpmf(x, 3.0)),
    "mixture": (
        dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.5, 0.5])), dist.Normal(jnp.array([-8.0, 8.0]), 1.0)
        ),
        lambda x: np.logaddexp(stats.norm.logpdf(x, -8), stats.norm.logpdf(x, 8)) - math.log(2),
    ),
}


@pytest.mark.parametrize("name", some(CASES, {"event", "mixture"}))
def test_density_is_that_of_scipy(name):
    distribution, log_density = CASES[name]
    algorithm = aide.Tractable.of(distribution)
    result = run(algorithm, algorithm, 6, 4, keep_values=True)
    expected = [log_density(x) for x in np.asarray(result.draws.gold.values)]
    np.testing.assert_allclose(result.draws.gold.own[:, 0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.draws.gold.cross[:, 0], expected, rtol=1e-6, atol=1e-6)
    assert result.value == pytest.approx(0.0, abs=1e-12)


WIDE: dict[str, tuple[Any, Any]] = {
    "uniform": (dist.Uniform(-1.0, 1.5), gaussian(0.2, 1.0)),
    "exponential": (dist.Exponential(1.0), gaussian(0.2, 1.0)),
    "lognormal": (dist.LogNormal(0.0, 1.0), gaussian(0.2, 1.0)),
    "square": (dist.Uniform(jnp.zeros(2), 1.0), aide.Tractable.of(Normal(np.zeros(2), 1.0))),
    "bernoulli": (dist.Bernoulli(0.3), aide.Tractable.of(dist.Poisson(3.0))),
    "categorical": (dist.Categorical(jnp.ones(2) / 2), aide.Tractable.of(dist.Poisson(3.0))),
}


@pytest.mark.parametrize("name", some(WIDE, {"square"}))
def test_density_vanishes_outside_the_support(name):
    """An algorithm that produces what the other one cannot: the divergence is infinite."""
    narrow, wide = WIDE[name]
    result = run(wide, aide.Tractable.of(narrow), 40, 30)
    assert result.value == math.inf
    assert 0 < result.gold_to_target.num_infinite <= 40
    assert result.target_to_gold.num_infinite == 0


def test_log_joint_from_a_bounded_prior():
    """SIR from a bounded prior gives no mass to outputs outside of it."""
    prior = aide.Tractable.of(dist.Uniform(-1.0, 1.5))
    log_joint = lambda x: prior.log_density(x) - 0.5 * x * x
    target = aide.sir(prior, log_joint, num_particles=2)
    result = run(gaussian(0.2, 1.0), target, 40, 30)
    outside = np.abs(_outputs(result) - 0.25) > 1.25
    np.testing.assert_array_equal(np.isinf(result.draws.gold.cross[:, 0]), outside)


def _outputs(result):
    """Outputs of the gold standard, made again with the same key."""
    again = run(gaussian(0.2, 1.0), gaussian(0.0, 1.0), 40, 30, keep_values=True)
    np.testing.assert_array_equal(again.draws.gold.own, result.draws.gold.own)
    return np.asarray(again.draws.gold.values)


def test_rejection_from_a_distribution():
    """Proposals from a distribution with traced parameters, for two sets of parameters."""
    for mean in (0.0, 1.0):
        proposal = aide.Tractable.of(dist.Normal(mean, 1.0))
        log_joint = lambda x, p=proposal: p.log_density(x) - 0.1 * x * x
        gold = aide.RejectionSampler(proposal, log_joint, 0.0)
        result = run(gold, proposal, keep_values=True)
        x = np.asarray(result.draws.gold.values)
        expected = stats.norm.logpdf(x, mean, 1.0) - 0.1 * x * x
        np.testing.assert_allclose(result.draws.gold.own[:, 0], expected, rtol=1e-9)


LOG_JOINT = lambda x: -0.5 * jnp.sum((x - 0.5) ** 2)
KERNEL = aide.kernels.RandomWalk(0.5)
BARE: dict[str, Any] = {
    "sir": lambda start: aide.sir(start, LOG_JOINT, num_particles=2),
    "mcmc": lambda start: aide.mcmc(start, LOG_JOINT, kernel=KERNEL, num_steps=2),
    "ais": lambda start: aide.ais(start, LOG_JOINT, kernel=KERNEL, temperatures=[0.5, 1.0]),
}


@pytest.mark.parametrize("name", some(BARE, {"sir"}))
def test_a_bare_distribution_does_as_a_start(name):
    """Twice, with other numbers: the equality of NumPyro's distributions must decide nothing."""
    for std in (1.0, 2.0):
        start = dist.Normal(np.zeros(2), std)
        wrapped = run(aide.Tractable.of(start), BARE[name](aide.Tractable.of(start)))
        assert run(aide.Tractable.of(start), BARE[name](start)).value == wrapped.value


class SeedStyle:
    """distrax and TensorFlow Probability call the key `seed`."""

    def sample(self, *, seed, sample_shape=()):
        return jax.random.normal(seed, sample_shape)

    def log_prob(self, value):
        return Normal(0.0, 1.0).log_prob(value)


def test_the_key_may_be_called_seed():
    result = run(aide.Tractable.of(SeedStyle()), gaussian(0.0, 1.0))
    assert result.value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("thing", [3.0, stats.norm(0, 1), dist.Normal, "Normal", None])
def test_something_else(thing):
    with pytest.raises(TypeError, match=r"sample\(key\) and log_prob"):
        aide.Tractable.of(thing)
