"""Data simulated by models of libraries, and their log joint for any data."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.pymc_here import pymc_here

import aide

numpyro = import_module("numpyro")
dist = numpyro.distributions
X = np.linspace(-1.0, 1.0, 6)


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(slope * x, scale), obs=y)


@pytest.mark.full
def test_numpyro_simulates_its_observed_sites(x64):
    post = aide.numpyro.posterior(model, X, y=np.zeros(6))
    x, data = post.sample_joint(jax.random.key(0))
    again, other = post.sample_joint(jax.random.key(1))
    assert set(data) == {"y"}
    assert data["y"].shape == (6,)
    assert not np.allclose(x, again)
    assert not np.allclose(data["y"], other["y"])
    same = aide.numpyro.posterior(model, X, y=np.asarray(data["y"]))
    assert float(post.log_joint_given(x, data)) == pytest.approx(float(same.log_joint(x)))
    assert float(post.log_joint_given(x, data)) != pytest.approx(float(post.log_joint(x)))


def test_a_model_with_a_factor_cannot_be_simulated():
    def with_factor():
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("tilt", -mu)

    with pytest.raises(ValueError, match="tilt is a factor"):
        aide.numpyro.posterior(with_factor).sample_joint(jax.random.key(0))


@pytest.mark.full
def test_a_conjugate_model_of_numpyro_is_calibrated_and_a_narrow_fit_is_not():
    def conjugate(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    post = aide.numpyro.posterior(conjugate, y=0.3)
    for stretch in (1.0, 0.6):
        found = aide.check_calibration(
            0,
            post.sample_joint,
            lambda key, data, s=stretch: aide.Tractable.of(
                aide.problems.Normal(0.5 * data["y"][None], s * 0.5**0.5 * jnp.ones(1))
            ),
            log_joint=post.log_joint_given,
            names=post.layout.coordinates,
            num_datasets=100,
        )
        assert found.nats is not None
        assert found.functions == ("mu", "log joint")
        assert not found.why_slow
        assert found.verdict == ("undecided" if stretch == 1.0 else "failed")
        if stretch == 1.0:
            np.testing.assert_allclose(found.nats.terms, 0.0, atol=1e-9)


@pytest.mark.full
def test_pymc_simulates_its_observed_variables():
    with pymc_here() as pm:
        with pm.Model() as own:
            slope, scale = pm.Normal("slope", 0.0, 1.0), pm.HalfNormal("scale", 1.0)
            pm.Normal("y", slope * X, scale, observed=np.zeros(6))
        post = aide.pymc.posterior(own)
        x, data = post.sample_joint(jax.random.key(0))
        again, _ = post.sample_joint(jax.random.key(0))
        np.testing.assert_array_equal(x, again)
        assert data["y"].shape == (6,)
        with pm.Model() as same:
            slope, scale = pm.Normal("slope", 0.0, 1.0), pm.HalfNormal("scale", 1.0)
            pm.Normal("y", slope * X, scale, observed=data["y"])
        with jax.enable_x64(True):
            expected = float(aide.pymc.posterior(same).log_joint(x))
            assert float(post.log_joint_given(x, data)) == pytest.approx(expected)
            assert float(post.log_joint(x)) != pytest.approx(expected)
