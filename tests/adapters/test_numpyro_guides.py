r"""NumPyro guides as targets: densities by hand, closed forms, and what is refused.

Parameters are written down instead of being trained: what a guide is, not how good it is.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.stats import multivariate_normal, norm
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import (
    AutoBNAFNormal,
    AutoDAIS,
    AutoDelta,
    AutoDiagonalNormal,
    AutoGuideList,
    AutoIAFNormal,
    AutoLaplaceApproximation,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
    AutoNormal,
)

import aide

KEY = jax.random.key(3)
MEAN = np.array([0.5, -1.0, 2.0])
"""Of log scale, of alpha, of beta: the order of the model, which is not the alphabetical one."""
FACTOR = np.array([[0.5, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.4, 0.2, 1.5]])
VALUES = {"scale": 1.3, "beta": np.array([0.7]), "alpha": -0.4}


def model():
    r"""$\log$ scale, alpha and beta are jointly normal: the posterior is known exactly."""
    scale = numpyro.sample("scale", dist.LogNormal(MEAN[0], FACTOR[0, 0]))
    first = (jnp.log(scale) - MEAN[0]) / FACTOR[0, 0]
    alpha = numpyro.sample("alpha", dist.Normal(MEAN[1] + FACTOR[1, 0] * first, FACTOR[1, 1]))
    second = (alpha - MEAN[1] - FACTOR[1, 0] * first) / FACTOR[1, 1]
    mean = MEAN[2] + FACTOR[2, 0] * first + FACTOR[2, 1] * second
    numpyro.sample("beta", dist.Normal(mean, FACTOR[2, 2]).expand([1]).to_event(1))


@pytest.fixture(scope="module")
def post():
    return aide.numpyro.posterior(model)


@pytest.fixture(scope="module")
def full_rank(post):
    """The guide with the posterior's own mean and factor, shifted; parameters are float32."""
    guide = AutoMultivariateNormal(model)
    numpyro.handlers.seed(guide, 0)()

    def shifted(shift=0.0):
        params = {"auto_loc": np.float32(MEAN + shift), "auto_scale_tril": np.float32(FACTOR)}
        return post.guide(guide, params)

    return shifted


@pytest.fixture(scope="module")
def exact(post):
    return aide.Tractable(post.prior().sample, post.log_joint, label="exact")


@pytest.mark.full
def test_a_guide_that_is_exact_gives_zero_and_a_shifted_one_the_closed_form(exact, full_rank):
    r"""$s^\top \Sigma^{-1} s$ for a shift by $s$; an exact one is off by float32's rounding."""
    result = aide.estimate(KEY, exact, full_rank(), num_gold=400, num_target=400)
    assert abs(result.value) < 1e-4
    shift = np.array([0.5, 1.0, -1.0])
    result = aide.estimate(KEY, exact, full_rank(shift), num_gold=400, num_target=400)
    truth = float(np.sum(np.linalg.solve(FACTOR, shift) ** 2))
    assert abs(result.value - truth) < 5 * result.std_error
    assert result.std_error < 0.1 * truth


def test_the_order_of_a_guide_is_its_own(post, full_rank, x64):
    """Read in alphabetical order, the same guide would be far off: the control."""
    found = full_rank()
    x = jnp.array([0.3, -0.2, 0.9])
    right: Any = multivariate_normal.logpdf(x, MEAN, FACTOR @ FACTOR.T)
    assert float(found.log_density(x)) == pytest.approx(float(right), abs=1e-5)
    alphabetical = post.on_vector(
        dist.MultivariateNormal(jnp.asarray(MEAN), scale_tril=jnp.asarray(FACTOR)),
        {"alpha": 0, "beta": np.array([1]), "scale": 2},
    )
    assert abs(float(alphabetical.log_density(x)) - float(right)) > 1.0


STD = np.array([0.4, 0.9, 1.2])
LATENT = {"auto_loc": MEAN, "auto_scale": STD}
BY_NAME = {"scale": 0, "alpha": 1, "beta": [2]}
GUIDES = {
    "AutoNormal": (
        AutoNormal,
        {
            f"{name}_auto_{kind}": LATENT[f"auto_{kind}"][index]
            for kind in ("loc", "scale")
            for name, index in BY_NAME.items()
        },
        np.diag(STD**2),
    ),
    "AutoDiagonalNormal": (AutoDiagonalNormal, LATENT, np.diag(STD**2)),
    "AutoLowRankMultivariateNormal": (
        AutoLowRankMultivariateNormal,
        {**LATENT, "auto_cov_factor": np.array([[0.5], [1.0], [-0.5]])},
        np.diag(STD) @ (np.eye(3) + np.outer([0.5, 1.0, -0.5], [0.5, 1.0, -0.5])) @ np.diag(STD),
    ),
    "AutoLaplaceApproximation": (
        AutoLaplaceApproximation,
        {"auto_loc": MEAN},
        FACTOR @ FACTOR.T,
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "AutoNormal" else pytest.mark.full) for n in GUIDES],
)
def test_automatic_guides_have_the_density_they_should(post, name, x64):
    kind, params, covariance = GUIDES[name]
    found = post.guide(kind(model), params)
    assert found.label == name
    x = jnp.array([0.3, -0.2, 0.9])
    right: Any = multivariate_normal.logpdf(x, MEAN, covariance)
    assert float(found.log_density(x)) == pytest.approx(float(right), abs=1e-7)
    draws = jax.jit(jax.vmap(found.sample))(jax.random.split(KEY, 2000))
    spread = np.sqrt(np.diag(covariance) / 2000)
    assert np.all(np.abs(np.mean(draws, axis=0) - MEAN) < 5 * spread)


def written():
    loc = numpyro.param("loc", 0.0)
    numpyro.sample("beta", dist.Normal(loc, 1.0).expand([1]).to_event(1))
    scale = numpyro.param("spread", 1.0, constraint=constraints.positive)
    numpyro.sample("scale", dist.Gamma(2.0, scale))
    numpyro.sample("alpha", dist.Uniform(-2.0, 1.0))


PARAMS = {"loc": np.float32(0.25), "spread": np.float32(1.5)}


@pytest.mark.full
def test_a_guide_on_the_scale_of_the_model_is_moved_with_its_jacobian(post, x64):
    found = post.guide(written, PARAMS)
    assert found.label == "written"
    x = jnp.array([0.3, -0.2, 0.9])
    gamma = dist.Gamma(2.0, 1.5).log_prob(jnp.exp(0.3))
    on_values = norm.logpdf(0.9, 0.25, 1.0) + gamma - jnp.log(3.0)
    assert float(found.log_density(x)) == pytest.approx(float(on_values + 0.3), abs=1e-9)
    assert abs(float(on_values - found.log_density(x))) > 0.1  # control: without the Jacobian
    outside = found.log_density(jnp.array([0.3, 1.5, 0.9]))
    assert float(outside) == -np.inf  # alpha ends at 1, although NumPyro scores it all the same


def negative():
    numpyro.sample("scale", dist.Normal(0.0, 1.0))
    numpyro.sample("alpha", dist.Normal(0.0, 1.0))
    numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([1]))


def lacking():
    numpyro.sample("scale", dist.Gamma(2.0, 1.0))


def with_more():
    written()
    numpyro.sample("gamma", dist.Normal(0.0, 1.0))


def with_hidden():
    hidden = numpyro.sample("hidden", dist.Normal(0.0, 1.0), infer={"is_auxiliary": True})
    numpyro.sample("alpha", dist.Normal(hidden, 1.0))


def point():
    numpyro.sample("alpha", dist.Delta(0.0))


REFUSED = {
    "out of support": (negative, {}, "guide negative.*draws of scale are outside its support"),
    "missing": (lacking, {}, "guide lacking: there is no alpha, beta. The variables are scale"),
    "more": (with_more, PARAMS, "there is gamma, which the model does not have"),
    "hidden": (with_hidden, {}, "auxiliary variables .hidden."),
    "point": (point, {}, "is a point in alpha and has no density"),
    "parameters": (written, {"loc": 0.25}, "that params lacks: spread; there are loc"),
    "AutoDelta": (AutoDelta(model), {}, "AutoDelta is a point and has no density"),
    "list": (AutoGuideList(model), {}, "AutoGuideList has no density on one space"),
    "foreign": (AutoDiagonalNormal(model), {"a": 1.0}, "no parameter 'auto_loc'; there are a"),
    "names": (AutoNormal(model), {"scale_auto_loc": 0.0}, "auto_loc: there is no alpha, beta"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full if n == "foreign" else ()) for n in REFUSED]
)
def test_what_cannot_be_scored_is_refused_with_the_reason(post, name):
    guide, params, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        post.guide(guide, params)


@pytest.mark.full
@pytest.mark.parametrize("kind", [AutoBNAFNormal, AutoDAIS])
def test_guides_that_only_sample_are_refused(post, kind):
    guide = kind(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
    params = svi.get_params(svi.init(KEY))
    with pytest.raises(ValueError, match="cannot score the outputs of another algorithm"):
        post.guide(guide, params)


@pytest.mark.full
def test_a_flow_with_an_inverse_is_scored(post, x64):
    """Its density at its own draws, which needs no inverse, is the one found from outside."""
    guide = AutoIAFNormal(model, num_flows=2)
    svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
    result = svi.run(KEY, 50, progress_bar=False)
    found = post.guide(guide, result)
    assert aide.check(KEY, found, num_runs=2000).passed


def dependent():
    low = numpyro.sample("low", dist.Uniform(0.0, 1.0))
    numpyro.sample("high", dist.Uniform(low, 1.0))


def test_automatic_guides_of_supports_that_depend_are_refused():
    """NumPyro's automatic guides keep the support that they saw first."""
    post = aide.numpyro.posterior(dependent)
    with pytest.raises(ValueError, match="depends on other variables.*AutoNormal keeps"):
        post.guide(AutoNormal(dependent), {})


@pytest.mark.full
def test_a_singular_laplace_approximation_is_refused():
    """NumPyro would put a scale of zero there."""

    def flat():
        x = numpyro.sample("x", dist.ImproperUniform(constraints.real, (), ()))
        numpyro.factor("quartic", -(x**4))

    post = aide.numpyro.posterior(flat)
    with pytest.raises(ValueError, match="no positive scale in every direction"):
        post.guide(AutoLaplaceApproximation(flat), {"auto_loc": np.zeros(1)})


CORRELATION = 0.95


def correlated():
    covariance = jnp.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), covariance))


@pytest.mark.full
def test_mean_field_on_a_correlated_normal_is_the_closed_form():
    r"""The one of the fitted scales; with variances of $1 - \rho^2$ it is $\rho^2/(1 - \rho^2)$."""
    guide = AutoNormal(correlated)
    svi = SVI(correlated, guide, numpyro.optim.Adam(0.02), Trace_ELBO(num_particles=50))
    result = svi.run(jax.random.key(1), 1500, progress_bar=False)
    post = aide.numpyro.posterior(correlated)
    gold = aide.Tractable(post.prior().sample, post.log_joint)
    found = aide.estimate(KEY, gold, post.guide(guide, result), num_gold=4000, num_target=4000)
    truth = symmetrised_kl(result.params)
    assert abs(found.value - truth) < 4 * found.std_error
    ideal = CORRELATION**2 / (1 - CORRELATION**2)
    assert abs(truth - ideal) < 0.1 * ideal
    # Scales of 1 would not do: variances v and (1 - rho^2) / v are equally far.
    wide = {**result.params, "x_auto_scale": np.full(2, 2.0)}
    control = aide.estimate(KEY, gold, post.guide(guide, wide), num_gold=4000, num_target=4000)
    assert abs(control.value - truth) > 20 * found.std_error


def symmetrised_kl(params):
    r"""$\frac12\mathrm{tr}(\Sigma_q^{-1}\Sigma_p + \Sigma_p^{-1}\Sigma_q) - d$, and the means'."""
    mean, scale = (np.asarray(params[f"x_auto_{kind}"], float) for kind in ("loc", "scale"))
    p, q = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]]), np.diag(scale**2)
    both = np.linalg.inv(p) + np.linalg.inv(q)
    traces = np.trace(np.linalg.inv(q) @ p) + np.trace(np.linalg.inv(p) @ q)
    return float(0.5 * traces - 2 + 0.5 * mean @ both @ mean)


def test_a_guide_of_another_model_is_a_warning() -> None:
    """The same names, another density; the same model written again is none."""

    def normal(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    def wide(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    def again(y):
        return normal(y)

    data = np.array([0.3, 0.8])
    post = aide.numpyro.posterior(normal, data)
    params = {"mean_auto_loc": np.array(0.4), "mean_auto_scale": np.array(0.6)}
    with pytest.warns(UserWarning, match="the guide was made for wide, whose log joint"):
        post.guide(AutoNormal(wide), params)
    for model in (normal, again):
        post.guide(AutoNormal(model), params)
    mcmc = MCMC(NUTS(wide), num_warmup=20, num_samples=20, progress_bar=False)
    mcmc.run(jax.random.key(0), data)
    with pytest.warns(UserWarning, match="the draws were made for wide, whose log joint"):
        post.from_mcmc(mcmc, check_score=False)
    with pytest.raises(TypeError, match=r"post\.gold has no argument num_samples="):
        post.gold(0, num_samples=3)
