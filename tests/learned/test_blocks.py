"""Gibbs over blocks of a named state, with learned meta-inference: closed form and laws."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from support import Z_MAX, laws
from support.registry import Entry

import aide
from aide._core.validate import check_scalar
from aide.engine.programs.programs import compile_quickly
from aide.problems.distributions import Normal

CORRELATION = 0.8
ROOT = float(np.sqrt(1 - CORRELATION**2))


class Pair(eqx.Module):
    """Two independent normals under names, as a distribution over dictionaries."""

    first: Normal
    second: Normal

    def sample(self, key):
        keys = jax.random.split(key)
        return {"a": self.first.sample(keys[0]), "b": self.second.sample(keys[1])}

    def log_density(self, x):
        return self.first.log_prob(x["a"]) + self.second.log_prob(x["b"])


def log_joint(x):
    """Two standard normals with correlation 0.8, and a constant."""
    return check_scalar(
        "log_joint",
        Normal(0.0, 1.0).log_prob(x["a"]) + Normal(CORRELATION * x["a"], ROOT).log_prob(x["b"]) + 1,
    )


START = Pair(Normal(1.5, 1.0), Normal(-1.0, 0.8))
KERNEL: Any = aide.kernels.Cycle(
    aide.kernels.GibbsBlock("a", lambda x: Normal(CORRELATION * x["b"], ROOT)),
    aide.kernels.GibbsBlock("b", lambda x: Normal(CORRELATION * x["a"], ROOT)),
)


def test_every_move_is_accepted(x64):
    x = {"a": jax.numpy.asarray(0.3), "b": jax.numpy.asarray(-2.0)}
    for part in KERNEL.parts:
        step = part.record(jax.random.key(1), log_joint, x)
        assert step.branch == 1
        assert step.value[part.name] != x[part.name]


@pytest.mark.full
def test_two_sweeps_against_the_closed_form():
    """The chain's law is Gaussian: its bound meets the exact divergence, and the laws hold."""
    options: Any = {"kernel": KERNEL, "num_steps": 2}
    few: Any = {"num_components": 2, "num_pilots": 1000}
    with compile_quickly():
        algorithm = aide.mcmc(START, log_joint, **options)
        chain = aide.refine(jax.random.key(1), algorithm, num_reverse=20, **few)
    mean, covariance = np.array([1.5, -1.0]), np.diag([1.0, 0.64])
    for block in (0, 1, 0, 1):
        keep = np.zeros((2, 2))
        keep[1 - block, 1 - block], keep[block, 1 - block] = 1.0, CORRELATION
        noise = np.zeros((2, 2))
        noise[block, block] = ROOT**2
        mean, covariance = keep @ mean, keep @ covariance @ keep.T + noise
    target = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    inverse = np.linalg.inv(covariance), np.linalg.inv(target)
    divergence = 0.5 * (np.trace(inverse[0] @ target) + np.trace(inverse[1] @ covariance)) - 2
    divergence += 0.5 * mean @ (inverse[0] + inverse[1]) @ mean
    gold = aide.Tractable(sample_exactly, lambda x: log_joint(x) - 1)
    broad = Pair(Normal(0.0, 2.0), Normal(0.0, 2.0))
    entry = Entry(chain, gold, broad.log_density, num_runs=2000)
    draws = laws.law_draws(entry)
    result = aide.summarise(draws)
    assert abs(result.value - divergence) < Z_MAX * result.std_error + 0.05
    assert result.looseness.target is not None
    assert result.looseness.target.value < 0.05
    assert abs(laws.swap_z(laws.log_ratios(draws))) < Z_MAX
    assert abs(laws.mass_z(draws)) < Z_MAX


def sample_exactly(key):
    keys = jax.random.split(key)
    a = Normal(0.0, 1.0).sample(keys[0])
    return {"a": a, "b": Normal(CORRELATION * a, ROOT).sample(keys[1])}
