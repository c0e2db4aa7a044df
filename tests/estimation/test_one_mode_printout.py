"""Modes at -8 and 8, a chain started on one: no meter at its own outputs sees the other mode."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import aide
from aide.engine.programs.programs import compile_quickly
from aide.problems.distributions import Normal

KEY = jax.random.key(0)
START, WALK, NUM_STEPS = Normal(8.0, 1.0), aide.kernels.RandomWalk(1.0), 10


class Modes(eqx.Module):
    """0.5 N(-8, 1) + 0.5 N(8, 1)."""

    def sample(self, key):
        key_side, key_x = jax.random.split(key)
        return jnp.where(jax.random.bernoulli(key_side), 8.0, -8.0) + jax.random.normal(key_x)

    def log_prob(self, x):
        left, right = Normal(-8.0, 1.0).log_prob(x), Normal(8.0, 1.0).log_prob(x)
        return jnp.logaddexp(left, right) - jnp.log(2.0)


def looseness_line(estimate):
    (line,) = [line for line in repr(estimate).splitlines() if line.startswith("  looseness")]
    assert "at most" not in line
    assert "at its own outputs" in line
    return line


def judge(chain):
    """One printout with M = 1, one with M = 2; most of the bound is meta-inference's in both."""
    draws = aide.draw(
        KEY, aide.Tractable.of(Modes()), chain, num_gold=100, num_target=100, num_meta_target=2
    )
    double = aide.estimation.Estimate(draws)
    one = aide.draw(KEY, aide.Tractable.of(Modes()), chain, num_gold=100, num_target=100)
    single = aide.estimation.Estimate(one)
    for estimate in (single, double):
        gap = estimate.looseness.target
        assert gap is not None
        assert abs(gap.value) < 0.01
        assert estimate.value > 40
    assert "what it adds at the gold's is unknown (M = 1)" in looseness_line(single)
    assert "at the gold's the last doubling of M took off" in looseness_line(double)


@pytest.fixture(autouse=True)
def _quick_compilation():
    with compile_quickly():
        yield


@pytest.mark.full
def test_canonical_meta_inference_says_what_its_meter_does_not_see():
    judge(aide.mcmc(START, Modes().log_prob, kernel=WALK, num_steps=NUM_STEPS))


@pytest.mark.full
def test_learned_meta_inference_says_what_its_meter_does_not_see():
    chain = aide.mcmc(START, Modes().log_prob, kernel=WALK, num_steps=NUM_STEPS)
    judge(aide.refine(KEY, chain, num_reverse=16, num_pilots=200, num_components=1))
