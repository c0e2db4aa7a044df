"""Deterministic, observed and new variables by name, as functions for tables of errors."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from support import schools
from support.pymc_here import pymc_here

import aide
from aide.adapters.gaussian import Gaussian
from aide.estimation.errors.find import MEAN, PROBABILITY

X, COUNTS = np.array([0.0, 1.0, 2.0]), np.array([1, 0, 3])
NEW = np.array([5.0, 6.0])
AT = {"a": 0.2, "b": 0.1}
RATES = np.exp(AT["a"] + AT["b"] * NEW)


def poisson(x, y=None, has_new=False):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    mean = numpyro.deterministic("mean", a + b * x)
    if has_new:
        group = numpyro.sample("group", dist.Normal(a, 1))
        numpyro.sample("z", dist.Normal(group, 1))
    numpyro.sample("y", dist.Poisson(jnp.exp(mean)), obs=y)


def numpyro_poisson() -> Any:
    return aide.numpyro.posterior(poisson, X, COUNTS)


def at(functions: Any, values: Any) -> list[np.ndarray]:
    with jax.enable_x64(True):
        return [np.asarray(one(values)) for one in functions.values()]


def schools_posterior(library: str) -> Any:
    if library == "NumPyro":
        return schools.numpyro_posterior(False)
    with pymc_here():
        return aide.pymc.posterior(schools.pymc_model(False))


@pytest.mark.parametrize("library", ["NumPyro", "PyMC"])
def test_effects_and_predictions_of_eight_schools(library):
    post = schools_posterior(library)
    data = "effects" if library == "NumPyro" else "y"
    values = {"mu": 1.5, "tau": 2.0, "unit": np.arange(8.0)}
    theta = 1.5 + 2.0 * np.arange(8.0)
    assert list(post.predict()) == ["theta", data]
    for found in at(post.predict("theta", data), values):
        np.testing.assert_allclose(found, theta, rtol=1e-6)
    above = post.predict(data, above=20.0)
    assert list(above) == [f"P({data} > 20)"]
    [found] = at(above, values)
    np.testing.assert_allclose(found, stats.norm.sf((20 - theta) / schools.ERRORS), rtol=1e-5)
    [found] = at(post.predict("theta", below=3.5), values)
    np.testing.assert_array_equal(found, theta <= 3.5)


def test_predictions_at_new_points_in_numpyro():
    post = numpyro_poisson()
    np.testing.assert_allclose(at(post.predict("y", args=(NEW,)), AT)[0], RATES, rtol=1e-6)
    found = at(post.predict("y", below=2, args=(NEW,)), AT)[0]
    np.testing.assert_allclose(found, stats.poisson.cdf(2, RATES), rtol=1e-5)
    old = at(post.predict("y"), AT)[0]  # the control: those of the data
    assert old.shape == X.shape


def test_predictions_at_new_points_in_pymc():
    with pymc_here() as pm:
        with pm.Model() as model:
            x = pm.Data("x", X)
            mean = pm.Deterministic("mean", pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x)
            pm.Poisson("y", pm.math.exp(mean), observed=COUNTS, shape=mean.shape)
        post = aide.pymc.posterior(model)
        with model:
            pm.set_data({"x": NEW})
        np.testing.assert_allclose(at(post.predict("y"), AT)[0], RATES, rtol=1e-6)
        found = at(post.predict("y", below=2), AT)[0]
        np.testing.assert_allclose(found, stats.poisson.cdf(2, RATES), rtol=1e-5)
        with pm.Model() as model:
            pm.Cauchy("y", pm.Normal("a", 0, 1), 1.0, observed=1.0)
        with pytest.raises(ValueError, match="no mean of its distribution"):
            aide.pymc.posterior(model).predict("y")


def test_what_cannot_be_predicted_is_refused():
    post = numpyro_poisson()
    with pytest.raises(ValueError, match=r"z depends on random variables .* group"):
        post.predict("z", args=(NEW,), kwargs={"has_new": True})
    assert list(post.predict("y", args=(NEW,), kwargs={"has_new": True})) == ["y"]
    with pytest.raises(ValueError, match=r"no w to predict; .* mean, y"):
        post.predict("w")
    with pytest.raises(ValueError, match="below or above, not both"):
        post.predict("y", below=1, above=2)


@pytest.fixture(scope="module")
def fits() -> Any:
    """Two Gaussians on the vectors of one posterior, far enough apart to see."""
    post, order = numpyro_poisson(), {"a": 0, "b": 1}
    gold, target = (
        post.on_vector(Gaussian(np.array([mean, 0.2]), np.full(2, 0.3)), order, str(mean))
        for mean in (0.1, 0.4)
    )
    key = jax.random.key(3)
    sizes = {"num_gold": 600, "num_target": 600}
    return SimpleNamespace(post=post, estimate=aide.estimate(key, gold, target, **sizes))


def test_a_table_has_predictions_by_element(fits):
    """By name, the same numbers as of a function written by hand; a wrong one differs."""
    predicted = fits.post.predict("mean", args=(NEW,))
    by_hand = {"by hand": lambda v: v["a"] + v["b"] * NEW, "wrong": lambda v: v["b"] * NEW}
    errors = fits.estimate.errors(functions=predicted | by_hand, posterior=fits.post)
    for i in range(2):
        found, hand, wrong = (errors[f"{name}[{i}]"].of(MEAN) for name in ("mean", *by_hand))
        assert found == hand
        assert abs(found.error - wrong.error) > 0.1


def test_a_conditional_probability_has_the_error_of_a_probability(fits):
    """Its mean is that of the event in simulated data, with less noise."""
    found = fits.post.predict("y", above=2, args=(NEW,))
    errors = fits.estimate.errors(functions=found, posterior=fits.post)
    truths, rng = [], np.random.default_rng(0)
    for mean in (0.1, 0.4):
        a, b = rng.normal(mean, 0.3, 100_000), rng.normal(0.2, 0.3, 100_000)
        truths.append([stats.poisson.sf(2, np.exp(a + b * x)).mean() for x in NEW])
    for i, (gold, target) in enumerate(zip(*truths, strict=True)):
        error = errors[f"P(y > 2)[{i}]"].of(PROBABILITY)
        assert error is not None
        assert error.low < target - gold < error.high
        assert abs(error.error - (target - gold)) < 5 * (error.std_error + 0.002)
        assert abs(error.error + (target - gold)) > 5 * error.std_error  # the control: the sign
