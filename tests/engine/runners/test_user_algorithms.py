r"""Algorithms that users bring: plain classes, modules, NumPy code, densities as closures.

Where the answer is known, two exact normals, the estimate must agree with the closed form of the
symmetrised KL divergence; the control is a wrong claim about one of the two.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX
from support.pairs import (
    LOG_ROOT_TWO_PI,
    NumpyGaussian,
    assert_same,
    gaussian,
    gaussian_kl,
    run,
)

import aide
from aide.problems.distributions import Normal

TARGET = gaussian(0.5, 1.2)


class Plain:
    """Two methods and nothing else."""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def simulate(self, key):
        x = self.mean + self.std * jax.random.normal(key)
        return aide.Draw(x, self.regenerate(key, x))

    def regenerate(self, key, value):
        z = (value - self.mean) / self.std
        return -0.5 * z * z - jnp.log(self.std) - LOG_ROOT_TWO_PI


@dataclass
class PlainDataclass(Plain):
    mean: float
    std: float


class WithLogZ(Plain):
    log_z = np.array(0.0)


class Module(eqx.Module):
    mean: float
    std: jax.Array
    simulate = Plain.simulate
    regenerate = Plain.regenerate


MAKERS = {
    "plain class": Plain,
    "plain dataclass": PlainDataclass,
    "class with log_z": WithLogZ,
    "equinox module": lambda mean, std: Module(mean, jnp.asarray(std)),
}


AGAIN = {"plain class", "equinox module"}
"""What a dataclass, a class with log_z and the library's own modules show already."""
NAMES = [pytest.param(n, marks=pytest.mark.full) if n in AGAIN else n for n in MAKERS]


@pytest.mark.parametrize("name", NAMES)
def test_user_classes_agree_with_the_library(name):
    result = run(MAKERS[name](0.25, 0.75), TARGET)
    expected = run(gaussian(0.25, 0.75), TARGET)
    assert_same(result.draws, expected.draws, 1e-9)
    assert result.gold_to_target.is_kl_bound == (name == "class with log_z")
    swapped = run(TARGET, MAKERS[name](0.25, 0.75))
    assert_same(swapped.draws, run(TARGET, gaussian(0.25, 0.75)).draws, 1e-9)


def test_outputs_may_be_any_structure():
    def sample(key):
        one, two = jax.random.split(key)
        return {"a": jax.random.normal(one, (2, 2)), "b": (jax.random.bernoulli(two), [1.5])}

    log_density = lambda x: -0.5 * jnp.sum(x["a"] ** 2)
    algorithm = aide.Tractable(sample, log_density, log_z=None)
    result = run(algorithm, algorithm, keep_values=True)
    assert result.value == pytest.approx(0.0, abs=1e-12)
    assert result.draws.gold.values["a"].shape == (20, 2, 2)
    assert result.draws.gold.values["b"][0].dtype == bool


def _z(claimed_std):
    """Distance of the estimate from the divergence between N(0, 1) and N(0.5, claimed_std^2)."""
    gold = aide.PythonAlgorithm(NumpyGaussian(0.0, 1.0), log_z=0.0)
    result = run(gold, TARGET, 2000, 2000)
    truth = gaussian_kl(0.0, 1.0, 0.5, claimed_std) + gaussian_kl(0.5, claimed_std, 0.0, 1.0)
    return (result.value - truth) / result.std_error


def test_numpy_code_against_jax_code():
    assert abs(_z(1.2)) < Z_MAX


def test_numpy_code_against_jax_code_can_fail():
    assert abs(_z(1.6)) > 2 * Z_MAX


def test_numpy_code_on_both_sides():
    gold, target = NumpyGaussian(0.0, 1.0), NumpyGaussian(0.5, 1.2)
    one, two = (aide.PythonAlgorithm(inner, log_z=0.0) for inner in (gold, target))
    result = run(one, two, num_meta_gold=2, num_meta_target=3)
    assert [side.name for side in result.draws.sides] == ["NumpyGaussian"] * 2
    assert result.gold_to_target.is_kl_bound
    assert result.looseness.gold == pytest.approx((0.0, 0.0), abs=1e-15)
    assert_same(run(one, two, num_meta_gold=2, num_meta_target=3).draws, result.draws)
    swapped = run(two, one, 30, 20)
    assert not np.isclose(swapped.draws.target.own, result.draws.gold.own[:20, :2]).any()


def test_forward_reverse():
    """Importance sampling with one particle by hand is SIR with one particle."""
    proposal, posterior = Normal(0.2, 1.1), Normal(0.8, 0.5)
    log_weight = lambda x: posterior.log_prob(x) + 3.0 - proposal.log_prob(x)

    def forward(key):
        x = proposal.sample(key)
        return x, log_weight(x)

    log_joint = lambda x: posterior.log_prob(x) + 3.0
    mine = aide.ForwardReverse(forward, lambda key, x: log_weight(x), log_joint, "by hand")
    result = run(TARGET, mine, keep_values=True)
    assert result.draws.target.name == "by hand"
    assert result.gold_to_target.is_kl_bound
    z = (np.asarray(result.draws.target.values) - 0.2) / 1.1
    expected = -0.5 * z * z - math.log(1.1) - LOG_ROOT_TWO_PI
    np.testing.assert_allclose(result.draws.target.own[:, 0], expected, rtol=1e-10)
    np.testing.assert_allclose(result.draws.target.own[:, 1], expected, rtol=1e-10)
