"""NumPyro models as densities of one vector, against densities written by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.contrib.control_flow
import numpyro.distributions as dist
import pytest
from jax.scipy.stats import norm
from numpyro.distributions import constraints
from numpyro.infer.util import potential_energy
from support.numpyro_schools import DATA, centred, log_joint_by_hand, noncentred

import aide


@pytest.fixture(scope="module")
def schools():
    return aide.numpyro.posterior(centred, **DATA)


@pytest.fixture(scope="module")
def unit_schools():
    return aide.numpyro.posterior(noncentred, **DATA)


def some_x(posterior, seed=0):
    return jax.random.normal(jax.random.key(seed), (posterior.dimension,), float)


def test_variables_have_names_shapes_and_supports(schools, unit_schools):
    assert schools.names == ("tau", "mu", "theta")
    assert [v.support for v in schools.layout.variables] == ["positive", "real", "real"]
    assert schools.layout.variables[2].shape == (8,)
    assert unit_schools.names == ("tau", "mu", "unit")
    assert unit_schools.derived == ("theta",)
    assert repr(schools) == "NumpyroPosterior(centred: tau, mu, theta)"


def test_a_models_array_of_indices_still_works_in_single_precision():
    """Values by name are computed in double precision; the user's next fit must not notice."""
    group = np.repeat(np.arange(3), 2)

    def model(y):
        with numpyro.plate("groups", 3):
            effect: Any = numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)

    post = aide.numpyro.posterior(model, np.zeros(6))
    assert post.values_of(np.zeros((4, 3)))["effect"].shape == (4, 3)
    assert jnp.zeros(3)[group].dtype == np.float32


def test_centred_is_the_density_written_by_hand(schools, x64):
    parts = schools.layout.unpack(some_x(schools))
    expected = log_joint_by_hand(parts["mu"], parts["tau"], parts["theta"])
    assert float(schools.log_joint(some_x(schools))) == pytest.approx(float(expected), abs=1e-9)


def test_noncentred_is_the_density_written_by_hand(unit_schools, x64):
    r"""$\theta = \mu + \tau u$ has the Jacobian $\tau^8$."""
    parts = unit_schools.layout.unpack(some_x(unit_schools))
    theta = parts["mu"] + jnp.exp(parts["tau"]) * parts["unit"]
    expected = log_joint_by_hand(parts["mu"], parts["tau"], theta) + 8 * parts["tau"]
    found = unit_schools.log_joint(some_x(unit_schools))
    assert float(found) == pytest.approx(float(expected), abs=1e-9)


def test_prior_and_likelihood_add_up(schools, x64):
    x = some_x(schools)
    parts = schools.layout.unpack(x)
    likelihood = jnp.sum(norm.logpdf(DATA["effects"], parts["theta"], DATA["errors"]))
    assert float(schools.log_likelihood(x)) == pytest.approx(float(likelihood), abs=1e-9)
    both = schools.log_prior(x) + schools.log_likelihood(x)
    assert float(both) == pytest.approx(float(schools.log_joint(x)), abs=1e-9)


def test_both_scales_differ_by_the_jacobian(schools, x64):
    x = some_x(schools)
    values = schools.constrain(x)
    np.testing.assert_allclose(schools.unconstrain(values), x, atol=1e-12)
    assert float(values["tau"]) == pytest.approx(float(jnp.exp(x[0])))  # transforms of tau
    assert float(schools.log_jacobian(x)) == pytest.approx(float(x[0]), abs=1e-12)
    expected = schools.log_joint(x) - x[0]
    assert float(schools.log_joint_of(values)) == pytest.approx(float(expected), abs=1e-9)
    assert float(schools.log_joint_of({**values, "tau": -1.0})) == -np.inf


def test_a_value_that_overflows_has_density_zero(schools, x64):
    """The answer is zero and not NaN: `inf - inf` of a density at infinity."""
    gamma = aide.numpyro.posterior(lambda: numpyro.sample("s", dist.Gamma(2.0, 1.0)))
    assert float(jax.jit(gamma.log_joint)(jnp.array([800.0]))) == -np.inf
    naive = dist.Gamma(2.0, 1.0, validate_args=False).log_prob(jnp.exp(800.0)) + 800.0
    assert np.isnan(naive)  # control


def many_supports():
    numpyro.sample("weights", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    low = numpyro.sample("low", dist.Uniform(-1.0, 2.0))
    numpyro.sample("between", dist.Uniform(low, 3.0))
    with numpyro.plate("two", 2):
        numpyro.sample("chol", dist.LKJCholesky(3, 1.5))
    numpyro.factor("extra", -0.5 * low**2)


@pytest.mark.full
def test_all_supports_as_numpyro_counts_them(x64):
    """Simplex, interval, an interval that depends on another variable, and correlations."""
    post = aide.numpyro.posterior(many_supports)
    assert post.dimension == 2 + 1 + 1 + 2 * 3
    assert not post.has_fixed_supports
    x = some_x(post)
    expected = -potential_energy(many_supports, (), {}, post.layout.unpack(x))
    assert float(post.log_joint(x)) == pytest.approx(float(expected), abs=1e-9)
    np.testing.assert_allclose(post.unconstrain(post.constrain(x)), x, atol=1e-8)
    low = post.constrain(x)["low"]
    assert float(post.log_likelihood(x)) == pytest.approx(float(-0.5 * low**2))


def test_single_precision_data_are_promoted(x64):
    """The numbers are those of the data as given, computed in double precision."""
    single = {name: value.astype(np.float32) for name, value in DATA.items()}
    post = aide.numpyro.posterior(centred, **single)
    x = some_x(post)
    parts = post.layout.unpack(x)
    expected = float(log_joint_by_hand(parts["mu"], parts["tau"], parts["theta"]))
    assert float(post.log_joint(x)) == pytest.approx(expected, abs=1e-9)
    with jax.enable_x64(False):  # control: single precision is off by more
        rough = jax.jit(post.log_joint)(jnp.float32(x))
    assert abs(float(rough) - expected) > 1e-7


GROUP = np.array([1, 0, 1])


def indexed():
    level: Any = numpyro.sample("level", dist.Normal(np.zeros(2), 1.0))
    numpyro.sample("y", dist.Normal(level[GROUP], 1.0), obs=0.5)


@pytest.mark.full
def test_arrays_that_a_sampler_saw_in_single_precision(x64):
    """JAX would reuse what it made of the indices there."""
    with jax.enable_x64(False):
        sampler = jax.jit(lambda x: x[GROUP])
        sampler(jnp.zeros(2))
    post = aide.numpyro.posterior(indexed)
    x = jnp.array([0.3, -0.2])
    expected = jnp.sum(norm.logpdf(x)) + jnp.sum(norm.logpdf(0.5, x[np.array(GROUP)], 1.0))
    assert float(post.log_joint(x)) == pytest.approx(float(expected), abs=1e-9)


def discrete(y):
    kind = numpyro.sample("kind", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(kind, 1.0), obs=y)


def subsampled(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 10, subsample_size=4) as index:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[index])


def with_parameter(y):
    scale = numpyro.param("scale", 1.0, constraint=constraints.positive)
    mu = numpyro.sample("mu", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (discrete, "kind of model discrete is discrete.*MixtureSameFamily.*condition"),
        (subsampled, "plate rows of model subsampled takes 4 of 10 at random.*Leave out"),
        (with_parameter, "without a value: scale.*handlers.substitute"),
        (lambda y: numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y), "nothing to infer"),
    ],
    ids=["discrete", "subsampled", "parameter", "observed"],
)
def test_what_has_no_density_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        aide.numpyro.posterior(model, np.zeros(10))


def test_refused_models_work_once_they_are_mended(x64):
    """Plates without subsamples, parameters with values, discrete sites with data."""
    y = np.linspace(-1.0, 1.0, 10)
    fixed = numpyro.handlers.substitute(with_parameter, data={"scale": jnp.array(2.0)})
    post = aide.numpyro.posterior(fixed, y)
    expected = norm.logpdf(0.3, 0.0, 2.0) + jnp.sum(norm.logpdf(y, 0.3, 1.0))
    assert float(post.log_joint(jnp.array([0.3]))) == pytest.approx(float(expected), abs=1e-9)


def scanned(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))

    def step(level, observed):
        level = numpyro.sample("level", dist.Normal(level, scale))
        rate = numpyro.sample("rate", dist.LogNormal(level, 1.0))
        numpyro.sample("y", dist.Normal(rate, 1.0), obs=observed)
        return level, None

    numpyro.contrib.control_flow.scan(step, 0.0, y)


@pytest.mark.full
def test_sites_inside_a_scan(x64):
    y = jnp.array([0.3, -0.2, 1.0])
    post = aide.numpyro.posterior(scanned, y)
    assert post.dimension == 7
    x = some_x(post)
    expected = -potential_energy(scanned, (y,), {}, post.layout.unpack(x))
    assert float(post.log_joint(x)) == pytest.approx(float(expected), abs=1e-9)
    np.testing.assert_allclose(post.unconstrain(post.constrain(x)), x, atol=1e-9)


def test_a_model_without_its_data_names_the_argument() -> None:
    """Whether the data are discrete or real; other absent arguments do no harm."""

    def counted(scale=None, y=None):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0 if scale is None else scale))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    def measured(z=None):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("z", dist.Normal(mean, 1.0), obs=z)

    with pytest.raises(ValueError, match="without its data: y would be unknown.*scale, y were not"):
        aide.numpyro.posterior(counted)
    with pytest.raises(ValueError, match="without its data: z would be unknown"):
        aide.numpyro.posterior(measured)
    assert aide.numpyro.posterior(counted, y=3).names == ("rate",)


def test_nan_among_the_data_is_an_error_unless_the_model_handles_nan() -> None:
    """The argument and the number of entries are named; a mask makes them harmless."""

    def regression(covariate: Any, y: Any) -> None:
        slope: Any = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * covariate, 1.0), obs=y)

    def masked(y: Any) -> None:
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        kept = dist.Normal(mean, 1.0).mask(~jnp.isnan(y))
        numpyro.sample("y", kept, obs=jnp.nan_to_num(y))

    whole, holes = np.arange(5.0), np.array([1.0, np.nan, 0.0, np.nan, 2.0])
    with pytest.raises(ValueError, match=r"data with NaN \(2 of 5 entries of y\).*mask them"):
        aide.numpyro.posterior(regression, whole, y=holes)
    with pytest.raises(ValueError, match="2 of 5 entries of covariate"):
        aide.numpyro.posterior(regression, holes, whole)
    with pytest.raises(ValueError, match="2 of 5 entries of y"):
        aide.numpyro.posterior(lambda: regression(whole, holes))
    assert aide.numpyro.posterior(masked, holes).names == ("mean",)
    assert aide.numpyro.posterior(regression, whole, y=whole).names == ("slope",)
