r"""Inputs on which learning stopped or went astray: double precision, bare starts, dead pilots."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from support.learned import refined
from support.pairs import KEY

import aide
from aide.problems.distributions import Normal

WALK = aide.kernels.RandomWalk(0.5)


def log_joint(x):
    """A narrower normal."""
    return Normal(1.0, 0.7).log_prob(x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["mcmc", pytest.param("ais", marks=pytest.mark.full)])
@pytest.mark.full
def test_learning_with_double_precision_switched_on(name):
    """`jax.random.bits` is a 64-bit number then, which SciPy takes for no seed."""
    start = Normal(0.0, 1.0)
    learn = {"num_pilots": 60, "num_components": 1}
    if name == "mcmc":
        chain = aide.mcmc(start, log_joint, kernel=WALK, num_steps=2)
        assert aide.refine(KEY, chain, **learn).fit.num_steps == 2
    else:
        smc = aide.ais(start, log_joint, kernel=WALK, num_temperatures=3)
        assert aide.refine(KEY, smc, num_reverse=4, **learn).num_reverse == 4


STARTS = {
    "mcmc": lambda start: aide.mcmc(start, log_joint, kernel=WALK, num_steps=2),
    "ais": lambda start: aide.ais(start, log_joint, kernel=WALK, num_temperatures=2),
    "sir": lambda start: aide.sir(start, log_joint, num_particles=1),
}


@pytest.mark.parametrize(
    "name", ["sir", *(pytest.param(n, marks=pytest.mark.full) for n in ("ais", "mcmc"))]
)
def test_bare_numpyro_distributions_as_starts(name):
    """Two of them at once: caches of JAX compare functions, and theirs hold distributions."""
    algorithms = [STARTS[name](start) for start in (dist.Normal(0.0, 1.0), Normal(0.0, 1.0))]
    found = [
        aide.estimate(KEY, aide.Tractable.of(Normal(1.0, 0.7)), a, num_gold=20, num_target=20)
        for a in (*algorithms, STARTS[name](dist.Normal(0.0, 1.0)))
    ]
    gold = [estimate.gold_to_target.value for estimate in found]
    assert gold[0] == gold[2]
    if name == "sir":
        assert gold[0] == pytest.approx(gold[1], abs=1e-6)


@pytest.mark.full
def test_numpyro_start_of_a_learned_chain():
    learn = {"num_pilots": 60, "num_components": 1}
    start = dist.Normal(0.0, 1.0)
    chain = aide.mcmc(start, log_joint, kernel=WALK, num_steps=2)
    chain = aide.refine(KEY, chain, num_reverse=4, **learn)
    result = aide.estimate(KEY, aide.Tractable.of(start), chain, num_gold=10, num_target=10)
    assert jnp.isfinite(result.value)


def test_refining_an_algorithm_that_dies_says_so():
    half = lambda x: jnp.where(x > 0.0, log_joint(x), -jnp.inf)
    smc = aide.ais(Normal(0.0, 1.0), half, kernel=WALK, num_temperatures=2)
    with pytest.raises(ValueError, match="pilot runs all particle weights are zero"):
        aide.refine(KEY, smc, num_reverse=2, num_pilots=60, num_components=1)


def test_islands_grow_with_reverse_particles():
    smc = aide.tempered_smc(
        Normal(0.0, 1.0), log_joint, kernel=WALK, num_particles=50, num_temperatures=3
    )
    one = refined(smc, 100, 2)
    assert [one.with_reverse(n).num_islands for n in (16, 100, 200, 800)] == [1, 2, 4, 16]
    assert one.with_reverse(800).num_reverse == 800
