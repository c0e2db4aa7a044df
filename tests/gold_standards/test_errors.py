"""What cannot be made says why, and what to pass instead."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions
import pytest

import aide
from aide.gold_standards.choices import choose_tuner
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, WalkTuner
from aide.problems import IsingModel, LocalLevelModel
from aide.problems.distributions import Categorical, Normal

KEY, START = jax.random.key(0), Normal(np.zeros(2), 3.0)
MODEL = LocalLevelModel(np.zeros(3), 1.0, 1.0).state_space()


class Mixed:
    """A label and a real number."""

    def sample(self, key):
        return {"z": jax.random.bernoulli(key).astype(int), "x": jax.random.normal(key)}

    def log_prob(self, x):
        return jnp.log(0.5) + Normal(0.0, 1.0).log_prob(x["x"])


class Negative:
    """-1 or 0."""

    def sample(self, key):
        return jax.random.bernoulli(key, 0.5, (4,)).astype(int) - 1

    def log_prob(self, x):
        return jnp.log(0.5) * x.size


class Counts(eqx.Module):
    """Integers without a largest value, whose draws are small."""

    shape: tuple[int, ...] = ()
    num_values: int | None = None

    def sample(self, key):
        return jax.random.poisson(key, 1.0, self.shape)

    def log_prob(self, x):
        return jnp.sum(-jax.scipy.special.gammaln(x + 1.0) - 1.0)


def called_back(x):
    """A density that JAX cannot differentiate."""
    shape = jax.ShapeDtypeStruct((), jnp.result_type(float))
    outside = lambda z: np.asarray(-0.5 * np.sum(z**2), shape.dtype)
    return jax.pure_callback(outside, shape, x, vmap_method="sequential")


CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "no start": ((START.log_prob,), {}, ValueError, r"needs start=.*np\.zeros\(61\)"),
    "looseness": (
        (START.log_prob, START),
        {"max_looseness": -1.0},
        ValueError,
        r"max_looseness.*-1",
    ),
    "budget": ((START.log_prob, START), {"max_evaluations": 0}, ValueError, r"max_evaluations.*0"),
    "pilots": ((START.log_prob, START), {"num_pilots": 3}, ValueError, r"num_pilots.*10, got 3"),
    "integers": ((START.log_prob, np.zeros(2, int)), {}, TypeError, r"write reals as floats"),
    "text": ((START.log_prob, "prior"), {}, TypeError, r"a state of real numbers, got str"),
    "no function": ((3.0, START), {}, TypeError, r"log_joint must be a function.*float"),
    "mixed": ((lambda x: x["x"], Mixed()), {}, TypeError, r"draws both\. Pass kernel="),
    "negative": (
        (Negative().log_prob, Negative()),
        {"num_values": 2},
        ValueError,
        r"0, 1, 2, …, got -1",
    ),
    "counts": (
        (Counts().log_prob, Counts()),
        {},
        ValueError,
        r"no bounded support\. Pass num_values=, one number or an array of shape \(\); for",
    ),
    "too few values": (
        (Counts((2,)).log_prob, Counts((2,))),
        {"num_values": [50, 3]},
        ValueError,
        r"the start draws [3-9] at site 1 .* stated as 3, so that the largest is 2\. Pass a larger",
    ),
    "shape of values": (
        (Counts((2,)).log_prob, Counts((2,))),
        {"num_values": [50, 50, 50]},
        ValueError,
        r"num_values must be one number or an array .* \(2,\), got shape \(3,\)",
    ),
    "values of reals": ((START.log_prob, START), {"num_values": 3}, TypeError, r"draws reals"),
    "values and kernel": (
        (Counts().log_prob, Counts()),
        {"num_values": 3, "kernel": aide.kernels.GibbsSites([0], 3)},
        TypeError,
        r"that kernel= replaces: pass one",
    ),
    "integers as reals": (
        (START.log_prob, numpyro.distributions.GeometricProbs(0.3)),
        {},
        TypeError,
        r"support of GeometricProbs.* is discrete, but its draws are floating-point",
    ),
    "no gradient": ((called_back, np.zeros(2)), {}, TypeError, r"optimisers need a gradient"),
    "start of a model": ((MODEL, START), {}, TypeError, r"brings its own start"),
    "proposals": ((START.log_prob, START), {"proposals": [1]}, TypeError, r"for a StateSpaceModel"),
}


@pytest.mark.parametrize("name", CASES)
def test_errors(name):
    arguments, options, kind, words = CASES[name]
    with pytest.raises(kind, match=words):
        aide.gold_standard(KEY, *arguments, **options)


FEW: dict[str, Any] = {"num_pilots": 60, "kernel": aide.kernels.RandomWalk(1.0)}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_value_at_most_of_the_start(value):
    """More than half of its draws: an error that counts and names them."""
    wrong = lambda x: jnp.where(x[0] > -2.0, value, START.log_prob(x))
    words = r"NaN or \+inf at \d+% of 60 draws of the start \(pilots of the gold.*alpha = .*beta = "
    with pytest.raises(ValueError, match=words):
        aide.gold_standard(KEY, wrong, START, names=["alpha", "beta"], **FEW)


def test_no_value_next_to_the_posterior():
    """A quarter of the plane is missing, its edge is where the density is highest."""
    wrong = lambda x: jnp.where((x[0] > 0) & (x[1] > 0), jnp.nan, START.log_prob(x))
    words = r"NaN or \+inf at [0-9.]+% of the points within one standard.*example at x\[[01]\] = "
    with pytest.raises(ValueError, match=words):
        aide.gold_standard(KEY, wrong, START, **FEW)


def test_strict_densities_may_have_no_hole_at_all():
    """However far away: the first draw of the start that meets it is an error."""
    wrong = aide.algorithms.strict(lambda x: jnp.where(x[0] > 6.0, jnp.nan, START.log_prob(x)))
    with pytest.raises(ValueError, match=r"nan \(or \+inf\) for \d+ of 60 pilots.*is strict"):
        aide.gold_standard(KEY, wrong, START, **FEW)


def test_a_start_without_mass():
    nowhere = lambda x: jnp.where(x[0] > 1e6, 0.0, -jnp.inf)
    with pytest.raises(
        ValueError, match=r"-inf for all 20 pilots at draws of the start.*another start"
    ):
        aide.gold_standard(KEY, nowhere, START, num_pilots=20)


def test_which_kernel_suits_a_space():
    tuner = choose_tuner(KEY, START.log_prob, START, None)
    assert isinstance(tuner, HmcTuner)
    assert tuner.dense
    wide = Normal(np.zeros(301), 1.0)
    assert not choose_tuner(KEY, wide.log_prob, wide, None).dense
    walk = choose_tuner(KEY, called_back, START, None)
    assert isinstance(walk, WalkTuner)
    assert walk.num_times == 2
    model = IsingModel(0.4, shape=(3, 2))
    sweep = choose_tuner(KEY, model.log_density, model.uniform(), None)
    assert isinstance(sweep, GivenKernel)
    assert sweep.name == "Gibbs sweeps over 6 sites of 2 values"
    assert vars(sweep.given)["num_values"] == 2
    given = choose_tuner(KEY, START.log_prob, Mixed(), aide.kernels.RandomWalk(0.5))
    assert given.name == "your kernel"


def discrete(*bounds):
    return numpyro.distributions.DiscreteUniform(*bounds)


BOUNDED: dict[str, tuple[Any, Any]] = {
    "our own": (aide.Tractable.of(Categorical(jnp.array([1.0, 1.0, 2.0]))), 3),
    "categorical": (numpyro.distributions.Categorical(np.ones(4) / 4), 4),
    "never drawn": (numpyro.distributions.Categorical(np.array([1.0, 1e-30, 1e-30])), 3),
    "coin": (numpyro.distributions.Bernoulli(0.3), 2),
    "binomial": (numpyro.distributions.Binomial(np.array([3, 10]), 0.01), (4, 11)),
    "by site": (discrete(np.zeros(2, int), np.array([1, 5])).to_event(1), (2, 6)),
    "independent": (discrete(0, 4).expand([2, 2]).to_event(2), 5),
    "stated": (Counts((3,), 30), 30),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_numbers_of_values_are_those_of_the_support(name):
    """They are no matter of which values some draws of the start have."""
    start, num_values = BOUNDED[name]
    tuner = choose_tuner(KEY, lambda x: 0.0 * jnp.sum(x), start, None)
    assert isinstance(tuner, GivenKernel)
    assert vars(tuner.given)["num_values"] == num_values


def test_numbers_of_values_by_site():
    tuner = choose_tuner(KEY, lambda x: 0.0, Counts((2,)), None, np.array([50, 40]))
    assert isinstance(tuner, GivenKernel)
    assert vars(tuner.given)["num_values"] == (50, 40)
    assert tuner.name == "Gibbs sweeps over 2 sites of 40 to 50 values"
