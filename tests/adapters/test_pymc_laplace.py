"""The data of a Laplace approximation of pymc-extras as a target, by a group in its form."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.stats import multivariate_normal
from support.pymc_here import pymc_here

import aide

NAMES = ["s_log__", "B[0,0]", "B[0,1]", "B[1,0]", "B[1,1]", "beta[0]", "beta[1]", "beta[2]"]

AXES = ("rows", "columns")

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def post():
    with pymc_here() as pm:
        with pm.Model() as model:
            beta, scale = pm.Normal("beta", 0.0, 1.0, shape=3), pm.HalfNormal("s", 1.0)
            matrix = pm.Normal("B", 0.0, 1.0, shape=(2, 2))
            pm.Normal("y", beta.sum() + matrix[0, 1], scale, observed=np.ones(4))
        yield aide.pymc.posterior(model)


def group(names):
    """Mean and covariance, with the names of their rows."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(len(names), len(names)))
    covariance = root @ root.T + np.eye(len(names))
    mean = xr.DataArray(rng.normal(size=len(names)), dims=("rows",))
    data = {"mean_vector": mean, "covariance_matrix": xr.DataArray(covariance, dims=AXES)}
    return xr.Dataset(data, coords={"rows": names, "columns": names})


def test_a_laplace_approximation_goes_by_name(post):
    found = group(NAMES)
    target = post.guide(SimpleNamespace(fit=found))
    values = np.random.default_rng(1).normal(size=8)
    by_name = dict(zip(NAMES, values, strict=True))
    parts = {
        "beta": [by_name[f"beta[{i}]"] for i in range(3)],
        "s": by_name["s_log__"],
        "B": [[by_name[f"B[{i},{j}]"] for j in range(2)] for i in range(2)],
    }
    truth = multivariate_normal(found["mean_vector"].values, found["covariance_matrix"].values)
    with jax.enable_x64(True):
        x = post.layout.pack({name: jnp.asarray(part) for name, part in parts.items()})
        assert float(target.log_density(x)) == pytest.approx(truth.logpdf(values), abs=1e-9)
    assert target.label == "Laplace approximation"


def test_a_fit_of_another_model_and_data_without_a_density_are_refused(post):
    with pytest.raises(ValueError, match="other"):
        post.guide(SimpleNamespace(fit=group([*NAMES[:-1], "other"])))
    with pytest.raises(TypeError, match="lower limits, by aide.compare_draws"):
        post.guide(SimpleNamespace(posterior=None))
