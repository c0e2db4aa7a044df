"""Stan: models with BridgeStan's methods, and programs that httpstan compiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, schools
from support.schools import BridgedOddities, BridgedSchools

import aide
from aide.adapters.gaussian import Gaussian
from aide.adapters.stan import compile_program, posterior

KEY = jax.random.key(6)


@pytest.fixture(scope="module")
def post():
    return posterior(BridgedSchools())


def test_variables_have_names(post):
    assert post.names == ("mu", "tau", "theta")
    assert post.layout.coordinates[:3] == ("mu", "tau", "theta[0]")
    assert post.derived == ("spread",)


@pytest.mark.full
def test_log_density_and_gradient_come_back_from_a_batch(post, x64):
    points = jnp.asarray(schools.POINTS)
    found, slopes = jax.jit(jax.vmap(jax.value_and_grad(post.log_joint)))(points)
    hand = jax.vmap(jax.value_and_grad(lambda x: schools.log_joint(x, True)))
    expected, expected_slopes = hand(points)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-10)
    np.testing.assert_allclose(jax.vmap(post.log_jacobian)(points), points[:, 1], atol=1e-10)


def test_what_stan_rejects_has_density_zero(post, x64):
    assert float(post.log_joint(jnp.zeros(10).at[1].set(800.0))) == -np.inf
    values = {"mu": 0.0, "tau": -1.0, "theta": np.zeros(8)}
    assert np.isnan(post.unconstrain(values)).all()


def test_data_with_nan_are_an_error():
    """Stan refuses every point, and its words are passed on."""

    class WithNan(BridgedSchools):
        def log_density(self, theta_unc, *, propto=True, jacobian=True):
            raise RuntimeError("normal_lpdf: Random variable[3] is nan, but must not be nan!")

    with pytest.raises(ValueError, match=r"do the data hold NaN\? Stan says: normal_lpdf"):
        posterior(WithNan())


def test_prior_and_likelihood_are_not_told_apart(post):
    with pytest.raises(NotImplementedError, match="fitted distribution"):
        post.log_prior(jnp.zeros(10))


def test_order_simplices_and_dependent_bounds_go_by_name(x64):
    odd = posterior(BridgedOddities())
    sizes = [variable.unconstrained_shape for variable in odd.layout.variables]
    assert sizes == [(4,), (), (), (2,)]
    x = jnp.asarray(np.random.default_rng(3).normal(size=8))
    values = odd.constrain(x)
    np.testing.assert_array_equal(values["B"], np.reshape(x[:4], (2, 2), order="F"))
    assert values["s"].shape == (3,)
    np.testing.assert_allclose(odd.unconstrain(values), x, atol=1e-12)


@pytest.mark.full
def test_missing_constants_are_said_where_evidence_is_reported(post):
    assert post.keeps_constants
    model = BridgedOddities()
    odd = posterior(model)
    rows = np.random.default_rng(0).normal(size=(20, 8))
    flat = np.stack([model.param_constrain(row) for row in rows])
    matrices = flat[:, :4].reshape(20, 2, 2).swapaxes(1, 2)
    draws = {"B": matrices, "low": flat[:, 4], "high": flat[:, 5], "s": flat[:, 6:]}
    gold = odd.from_draws(draws)
    np.testing.assert_allclose(np.asarray(gold.draws)[0], rows, atol=1e-10)
    fit = aide.Tractable.of(Gaussian(np.zeros(8), np.ones(8)))
    text = str(aide.estimate(KEY, gold, fit, num_gold=20, num_target=20))
    assert "constants that Stan's ~ drops" in text


def test_an_exact_guide_gives_zero_and_a_shifted_one_its_closed_form():
    """The oddities' density is a standard normal of the unconstrained vector."""
    odd = posterior(BridgedOddities())
    exact = aide.Tractable(Gaussian(np.zeros(8), np.ones(8)).sample, odd.log_joint, log_z=None)
    sizes = {"num_gold": 200, "num_target": 200}
    same = aide.Tractable.of(Gaussian(np.zeros(8), np.ones(8)))
    assert aide.estimate(KEY, exact, same, **sizes).value == pytest.approx(0.0, abs=1e-9)
    shifted = aide.Tractable.of(Gaussian(np.full(8, 0.25), np.ones(8)))
    found = aide.estimate(KEY, exact, shifted, **sizes)
    assert abs(found.value - 8 * 0.25**2) < Z_MAX * found.std_error


def test_what_has_no_log_density_is_refused():
    with pytest.raises(TypeError, match=r"has no log_density.*bridgestan\.StanModel"):
        posterior(object())  # pyrefly: ignore[bad-argument-type]


@pytest.mark.full
@pytest.mark.parametrize("is_centred", [True, False], ids=["centred", "non-centred"])
def test_a_compiled_program_is_the_model_up_to_a_constant(is_centred, x64):
    model = compile_program(schools.STAN[is_centred], schools.STAN_DATA, optimise=False)
    post = posterior(model)
    assert not post.keeps_constants
    assert post.derived == (() if is_centred else ("theta",))
    gaps = []
    for point in schools.POINTS:
        x = post.layout.pack(schools.parts(jnp.asarray(point), is_centred))
        gaps.append(float(post.log_joint(x) - schools.log_joint(jnp.asarray(point), is_centred)))
        np.testing.assert_allclose(post.unconstrain(post.constrain(x)), x, atol=1e-12)
    assert np.ptp(gaps) < 1e-9
