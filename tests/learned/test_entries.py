"""Chains whose kernels act on entries of a state, with learned meta-inference."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import pytest
from support import Z_MAX
from support.learned import learned_chain

import aide
from aide.problems.distributions import Normal

START, LOG_JOINT = Normal(0.0, 2.0), Normal(0.5, 0.7).log_prob


class Named(eqx.Module):
    """A distribution whose draws are an entry of a dictionary."""

    inner: aide.Tractable

    def sample(self, key):
        return {"x": self.inner.sample(key)}

    def log_density(self, state):
        return self.inner.log_density(state["x"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["mala", "cycle"])
def test_an_entry_is_retraced_as_if_it_were_the_state(x64, name):
    """Same fit, same keys: outputs and log xi to the bit, of the run and of both walks back."""
    bare = learned_chain(name, 3)
    chain: Any = bare.chain
    named = aide.mcmc(
        Named(aide.Tractable.of(chain.start)),
        lambda state: chain.log_joint(state["x"]),
        kernel=aide.kernels.OnEntry("x", chain.kernel),
        num_steps=chain.num_steps,
    )
    entry = dataclasses.replace(bare, chain=named)
    key = jax.random.key(3)
    one, other = eqx.filter_jit(bare.simulate)(key), eqx.filter_jit(entry.simulate)(key)
    assert abs(one.value - other.value["x"]) < 1e-12
    assert abs(one.log_xi - other.log_xi) < 1e-10
    again = eqx.filter_jit(entry.regenerate)(key, other.value)
    assert abs(again - eqx.filter_jit(bare.regenerate)(key, one.value)) < 1e-10


class Pair(eqx.Module):
    """Two independent reals, in two entries."""

    def sample(self, key):
        x, y = 2.0 * jax.random.normal(key, (2,))
        return {"x": x, "y": y}

    def log_density(self, state):
        return START.log_prob(state["x"]) + START.log_prob(state["y"])


def log_pair(state):
    return LOG_JOINT(state["x"]) + LOG_JOINT(state["y"] - 0.5 * state["x"])


@pytest.mark.full
def test_two_entries_in_turn_are_measured():
    """Against the exact posterior the bound holds its closed form after enough steps: near 0."""
    walk = aide.kernels.RandomWalk(0.9)
    kernel = aide.kernels.Cycle(aide.kernels.OnEntry("x", walk), aide.kernels.OnEntry("y", walk))
    chain = aide.mcmc(Pair(), log_pair, kernel=kernel, num_steps=60)
    refined = aide.refine(jax.random.key(1), chain, num_reverse=100)

    def exact(key):
        x, y = 0.5 + 0.7 * jax.random.normal(key, (2,))
        return {"x": x, "y": y + 0.5 * x}

    found = aide.estimate(
        jax.random.key(2), aide.Tractable(exact, log_pair), refined, num_gold=300, num_target=300
    )
    assert found.looseness.target is not None
    assert found.looseness.target.value < 0.1
    assert abs(found.value) < 0.05 + Z_MAX * found.std_error
