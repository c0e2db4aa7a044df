"""PyMC: models as posteriors, ADVI fits as guides, traces as reference draws."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.stats import multivariate_normal
from support import Z_MAX, schools
from support.pymc_here import pymc_here

import aide

KEY = jax.random.key(4)


@pytest.fixture(scope="module")
def pm():
    with pymc_here() as module:
        yield module


BOTH = [
    pytest.param(True, id="centred"),
    pytest.param(False, id="non-centred", marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=BOTH)
def centred(request, pm):
    return request.param


@pytest.fixture(scope="module")
def model(centred, pm):
    return schools.pymc_model(centred)


@pytest.fixture(scope="module")
def post(model):
    return aide.pymc.posterior(model)


def test_the_log_joint_is_the_models(post, centred, x64):
    """Up to a constant: PyMC computes log 2 of the half-Cauchy in single precision."""

    def look(point):
        x = post.layout.pack(schools.parts(point, centred))
        joint, parts = post.log_joint(x), post.log_prior(x) + post.log_likelihood(x)
        there_and_back = post.unconstrain(post.constrain(x)) - x
        jacobian = post.log_jacobian(x) - point[1]
        return joint - schools.log_joint(point, centred), joint - parts, jacobian, there_and_back

    gaps, *zeros = jax.jit(jax.vmap(look))(schools.POINTS)
    assert np.ptp(np.asarray(gaps)) < 1e-9
    for zero in zeros:
        np.testing.assert_allclose(zero, 0.0, atol=1e-10)


def test_variables_go_by_name(post, centred, x64):
    assert post.names == ("tau", "mu", schools.variable(centred))
    assert post.derived == (() if centred else ("theta",))
    x = np.array([800.0, *np.zeros(9)])
    assert float(jax.jit(post.log_joint)(x)) == -np.inf


def _gaussian(pm, shift=0.0, scale=1.0):
    """Independent normals, one behind a log: tau is log-normal(0.5, 0.3), b normal."""
    with pm.Model() as model:
        pm.LogNormal("tau", 0.5 + shift, 0.3)
        pm.Normal("b", np.array([1.0, -2.0]), scale * np.array([0.5, 2.0]))
    return model


def _mean_field(pm, model):
    """An approximation that says what the Gaussian is, in PyMC's own order of variables."""
    approx = pm.MeanField(model=model)
    mean, std = np.zeros(3), np.zeros(3)
    truth = {"tau_log__": ([0.5], [0.3]), "b": ([1.0, -2.0], [0.5, 2.0])}
    for name, where, _, _ in approx.ordering.values():
        mean[where], std[where] = truth[name]
    approx.params_dict["mu"].set_value(mean)
    approx.params_dict["rho"].set_value(np.log(np.expm1(std)))
    return approx


def test_exact_and_shifted_guides_through_the_adapter(pm):
    post = aide.pymc.posterior(_gaussian(pm))
    exact = post.guide(_mean_field(pm, _gaussian(pm)))
    gold = aide.Tractable(exact.sample, post.log_joint)
    sizes = {"num_gold": 200, "num_target": 200}
    assert aide.estimate(KEY, gold, exact, **sizes).value == pytest.approx(0.0, abs=1e-9)
    approx = _mean_field(pm, _gaussian(pm))
    mean = approx.params_dict["mu"].get_value()
    mean[next(iter(approx.ordering.values()))[1]] += 0.15
    approx.params_dict["mu"].set_value(mean)
    found = aide.estimate(KEY, gold, post.guide(approx), **sizes)
    assert abs(found.value - 0.5**2) < Z_MAX * found.std_error


def test_full_rank_guides_have_their_covariance(pm, x64):
    post = aide.pymc.posterior(_gaussian(pm))
    approx = pm.FullRank(model=_gaussian(pm))
    factor = np.array([[0.3, 0, 0], [0.1, 0.5, 0], [-0.4, 0.2, 2.0]])
    given = factor.copy()
    np.fill_diagonal(given, np.log(np.expm1(np.diag(factor))))  # kept positive by a softplus
    approx.params_dict["L_tril"].set_value(given[np.tril_indices(3)])
    mean = np.array([0.5, 1.0, -2.0])
    approx.params_dict["mu"].set_value(mean)
    assert [name for name, *_ in approx.ordering.values()] == ["tau_log__", "b"]
    x = np.array([0.3, 0.8, -1.0])
    expected = multivariate_normal(mean, factor @ factor.T).logpdf(x)
    guide = post.guide(approx)
    found = jax.jit(lambda x: guide.log_density(x))(x)
    assert float(found) == pytest.approx(float(expected), abs=1e-9)


def test_what_cannot_be_measured_is_refused(pm):
    post = aide.pymc.posterior(_gaussian(pm))
    with pytest.raises(ValueError, match="approximation has mu, which the model"):
        post.guide(pm.MeanField(model=schools.pymc_model(True)))
    with pytest.raises(TypeError, match="no density that could be scored"):
        post.guide(object())
    with pm.Model() as discrete:
        pm.Poisson("n", 3.0)
    with pytest.raises(ValueError, match="n of the model is discrete"):
        aide.pymc.posterior(discrete)
    with pm.Model() as empty:
        pm.Normal("y", observed=0.0)
    with pytest.raises(ValueError, match="nothing to infer"):
        aide.pymc.posterior(empty)
    data = pm.Minibatch(np.arange(10.0), batch_size=2)
    with pm.Model() as part:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=data, total_size=10)
    with pytest.raises(ValueError, match="draws at random"):
        aide.pymc.posterior(part)


def test_draws_of_a_trace_are_reference_draws(post, centred):
    rng = np.random.default_rng(1)
    name = schools.variable(centred)
    draws = {"mu": rng.normal(size=(2, 5)), "tau": np.exp(rng.normal(size=(2, 5)))}
    draws |= {name: rng.normal(size=(2, 5, 8)).astype(np.float32)}
    extra = {} if centred else {"theta": rng.normal(size=(2, 5, 8))}
    dims = ("chain", "draw", "school")
    arrays = {name: (dims[: a.ndim], a) for name, a in {**draws, **extra}.items()}
    gold = post.from_arviz(xr.Dataset(arrays), check_score=False)
    flat = np.asarray(gold.draws)
    np.testing.assert_allclose(flat[..., 0], np.log(draws["tau"]))
    np.testing.assert_allclose(flat[..., 1], draws["mu"])


def test_nan_among_the_data_is_an_error_unless_the_model_handles_nan(pm):
    """Of observations and of covariates; PyMC's own imputation is left alone."""
    whole, holes = np.arange(5.0), np.array([1.0, np.nan, 0.0, np.nan, 2.0])

    def made(covariate, y):
        with pm.Model() as model:
            slope = pm.Normal("slope", 0.0, 1.0)
            pm.Normal("y", slope * covariate, 1.0, observed=y)
        return aide.pymc.posterior(model)

    with pytest.raises(ValueError, match=r"NaN \(2 of 5 entries of array .* log density"):
        made(holes, whole)
    assert made(whole, whole).names == ("slope",)
    with pytest.warns(Warning, match="imput"):
        assert len(made(whole, holes).names) == 2


def test_a_fit_to_other_data_is_a_warning_and_a_missing_operation_has_words(pm):
    """A mean-field fit whose variables have the right names; a censored normal distribution."""

    def built(data):
        with pm.Model() as model:
            level = pm.Normal("level", 0.0, 1.0)
            pm.Normal("y", level, 1.0, observed=data)
        return model

    mine, other = built(np.zeros(3)), built(np.ones(3))
    post = aide.pymc.posterior(mine)
    with pytest.warns(UserWarning, match="fit was made for PyMC model, whose log joint is not"):
        post.guide(pm.MeanField(model=other))
    post.guide(pm.MeanField(model=mine))
    post.guide(pm.MeanField(model=built(np.zeros(3))))
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0)
        normal = pm.Normal.dist(level, 1.0)
        pm.Censored("y", normal, lower=None, upper=1.0, observed=np.ones(3))
    with pytest.raises(NotImplementedError, match="PyTensor cannot translate to JAX"):
        aide.pymc.posterior(model)
