"""PyMC from the model to the number: ADVI of both kinds against NUTS and against SMC.

On the unconstrained scale the posterior of this regression is Gaussian, the log of tau among its
coordinates, so that the divergence of every fit has a closed form.
"""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support import Z_MAX
from support.pymc_here import pymc_here

import aide

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("default"),  # PyMC warns about its own chains
]
KEY = jax.random.key(6)
ROWS = np.array([[1.0, 0.9, 0.2], [1.0, -0.3, 1.0], [1.0, 1.4, -0.6], [1.0, 0.1, 0.4]])
DATA = np.array([1.2, 0.1, 2.0, 0.3])
PRECISION = np.eye(3) + ROWS.T @ ROWS / 0.5**2
MEAN = np.linalg.solve(PRECISION, ROWS.T @ DATA / 0.5**2)
"""Of (log tau, b) given the data."""


@pytest.fixture(scope="module")
def ran():
    """An existing script: a model, two fits, two samplers."""
    with pymc_here() as pm, pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        tau = pm.LogNormal("tau", 0.0, 1.0)
        pm.Normal("y", pm.math.log(tau) + ROWS[:, 1:] @ b, 0.5, observed=DATA)
        options = {"random_seed": 1, "progressbar": False}
        draws = {**options, "chains": 4, "cores": 1}
        fits = {name: pm.fit(15_000, method=name, **options) for name in ("advi", "fullrank_advi")}
        traces = {"NUTS": pm.sample(1000, **draws), "SMC": pm.sample_smc(1000, **draws)}
        return SimpleNamespace(post=aide.pymc.posterior(model), fits=fits, traces=traces)


def moments(approx):
    """Mean and covariance of a fit, in the order of the closed form."""
    where = {name: list(range(3))[place] for name, place, *_ in approx.ordering.values()}
    order = [*where["tau_log__"], *where["b"]]
    return approx.mean.eval()[order], approx.cov.eval()[np.ix_(order, order)]


def divergence(mean, covariance):
    """The two KL divergences between Gaussians, added."""
    gap, precision = mean - MEAN, np.linalg.inv(covariance)
    traces = np.trace(PRECISION @ covariance) + np.trace(precision @ np.linalg.inv(PRECISION))
    return 0.5 * (traces + gap @ (PRECISION + precision) @ gap) - 3.0


@pytest.mark.parametrize("sampler", ["NUTS", "SMC"])
@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_fits_have_their_closed_form(ran, method, sampler):
    gold, fit = ran.post.from_arviz(ran.traces[sampler]), ran.post.guide(ran.fits[method])
    found = aide.estimate(KEY, gold, fit, num_gold=2000, num_target=2000)
    truth = divergence(*moments(ran.fits[method]))
    print(
        f"{method} against {sampler}: {found.value:.4f} ± {found.std_error:.4f}, true {truth:.4f}"
    )
    assert abs(found.value - truth) < Z_MAX * found.std_error


def test_mean_field_misses_correlations_and_full_rank_does_not(ran):
    mean_field, full_rank = (divergence(*moments(fit)) for fit in ran.fits.values())
    best = divergence(MEAN, np.diag(1 / np.diag(PRECISION)))
    assert mean_field == pytest.approx(best, rel=0.3)
    assert full_rank < 0.1 * mean_field


def test_log_joint_prior_and_likelihood_are_the_closed_forms(ran, x64):
    def parts(x):
        flat = ran.post.layout.pack({"tau": x[0], "b": x[1:]})
        return ran.post.log_joint(flat), ran.post.log_prior(flat), ran.post.log_likelihood(flat)

    points = np.random.default_rng(2).normal(size=(5, 3))
    joint, prior, likelihood = map(np.asarray, jax.jit(jax.vmap(parts))(points))
    gaps = points - MEAN
    np.testing.assert_allclose(joint, prior + likelihood, atol=1e-12)
    log_posterior = -0.5 * np.einsum("ni,ij,nj->n", gaps, PRECISION, gaps)
    assert np.ptp(joint - log_posterior) < 1e-9
    assert np.ptp(prior + 0.5 * np.sum(points**2, axis=1)) < 1e-9


def test_another_scale_or_other_data_are_found(ran):
    """Draws of log tau in place of tau, and those of another posterior."""
    group = ran.traces["NUTS"]["posterior"]
    draws = {name: np.asarray(group[name]) for name in ("tau", "b")}
    with pytest.raises(ValueError, match="outside its support"):
        ran.post.from_draws({**draws, "tau": np.log(draws["tau"])})
    with pytest.raises(ValueError, match=r"are not draws from .*b\["):
        ran.post.from_draws({**draws, "b": -draws["b"]})
