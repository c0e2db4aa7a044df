"""Eight schools in NumPyro, PyMC and Stan: one posterior, whoever computes its density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import schools
from support.pymc_here import pymc_here

import aide
from aide.adapters.gaussian import Gaussian

KEY = jax.random.key(9)
BOTH = pytest.mark.parametrize("is_centred", [True, False], ids=["centred", "non-centred"])


def _posteriors(is_centred):
    with pymc_here():
        in_pymc = aide.pymc.posterior(schools.pymc_model(is_centred))
    program = schools.STAN[is_centred]
    compiled = aide.stan.compile_program(program, schools.STAN_DATA, optimise=False)
    return {
        "NumPyro": schools.numpyro_posterior(is_centred),
        "PyMC": in_pymc,
        "Stan": aide.stan.posterior(compiled),
    }


@pytest.mark.full
@BOTH
def test_log_joints_are_equal_up_to_a_constant(is_centred, x64):
    posteriors = _posteriors(is_centred)
    points = [schools.parts(jnp.asarray(point), is_centred) for point in 2 * schools.POINTS]
    found = {
        name: np.array([float(post.log_joint(post.layout.pack(parts))) for parts in points])
        for name, post in posteriors.items()
    }
    for name in ("PyMC", "Stan"):
        gaps = found[name] - found["NumPyro"]
        print(f"{name} - NumPyro: constant {gaps.mean():.9f}, spread {np.ptp(gaps):.1e}")
        assert np.ptp(gaps) < 1e-9


@pytest.mark.full
@BOTH
def test_the_divergence_of_one_guide_is_the_same(is_centred):
    """A mean-field Gaussian at the moments of one NUTS run, whose draws are the gold standard.

    The guide has an order of its own and is matched by name, so that its draws are the same in all
    libraries: the divergences must agree not within their errors, but but for rounding.
    """
    name = schools.variable(is_centred)
    draws = _nuts_draws(is_centred)
    columns = [draws["mu"], np.log(draws["tau"]), *np.moveaxis(draws[name], -1, 0)]
    mean, std = (np.array([each(column) for column in columns]) for each in (np.mean, np.std))
    order = {"mu": 0, "tau": 1, name: np.arange(2, 10)}
    values = {}
    for library, post in _posteriors(is_centred).items():
        guide = post.on_vector(Gaussian(mean, std), order, "mean-field")
        gold = post.from_draws(draws, check_score=False)
        found = aide.estimate(KEY, gold, guide, num_gold=1000, num_target=1000)
        values[library] = found.value
        print(library, is_centred, found.value, found.std_error)
    assert values["PyMC"] == pytest.approx(values["NumPyro"], abs=1e-8)
    assert values["Stan"] == pytest.approx(values["NumPyro"], abs=1e-8)
    swapped = post.on_vector(Gaussian(mean, std), {**order, "mu": 1, "tau": 0})
    wrong = aide.estimate(KEY, gold, swapped, num_gold=1000, num_target=1000)
    assert abs(wrong.value - values["Stan"]) > 1.0


def _nuts_draws(is_centred):
    from numpyro.infer import MCMC, NUTS

    model = schools.centred if is_centred else schools.noncentred
    with jax.enable_x64(True):
        kernel = NUTS(model, target_accept_prob=0.95)
        mcmc = MCMC(kernel, num_warmup=1000, num_samples=1000, progress_bar=False)
        mcmc.run(jax.random.key(1), **schools.DATA)
        samples = mcmc.get_samples(group_by_chain=True)
    names = ("mu", "tau", schools.variable(is_centred))
    return {name: np.asarray(samples[name]) for name in names}
