"""A Markov chain as an algorithm: other versions of it, and kernels without a reversal."""

import equinox as eqx
import jax
import numpy as np
import pytest
from support import toys

import aide
from aide.problems.distributions import Normal

WALK = aide.kernels.RandomWalk(0.8)
CHAIN = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=WALK, num_steps=4)


@pytest.mark.full
@pytest.mark.usefixtures("x64")
def test_canonical_meta_inference_is_smc_with_one_particle():
    steps = aide.smc.Steps(aide.smc.Constant(aide.smc.Rejuvenate(WALK, toys.log_joint)), None, 4)
    smc = aide.smc.Smc(toys.PRIOR, (steps,), toys.log_joint, 1, toys.log_joint)
    key = jax.random.key(3)
    both = lambda a: (a.simulate(key), a.regenerate(key, a.simulate(key).value))
    one, two = (jax.tree.leaves(eqx.filter_jit(both)(algorithm)) for algorithm in (CHAIN, smc))
    np.testing.assert_array_equal(one, two)


def test_other_versions():
    assert CHAIN.label == "MCMC, 4 steps"
    assert CHAIN.with_steps(7) == aide.mcmc(toys.PRIOR, toys.log_joint, kernel=WALK, num_steps=7)
    assert CHAIN.with_steps(7).label == "MCMC, 7 steps"
    mine = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=WALK, num_steps=4, label="mine")
    assert (mine.label, mine.with_steps(2).label) == ("mine", "mine, 2 steps")
    budgets = [CHAIN.with_budget(factor) for factor in (0.5, 2.0)]
    assert [version and version.num_steps for version in budgets] == [2, 8]
    assert CHAIN.with_steps(1).with_budget(0.5) is None
    start = Normal(1.0, 4.0)
    assert CHAIN.with_start(start).start is start
    assert CHAIN.with_start(start).label == "MCMC, 4 steps, other start"
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 0, got -1"):
        CHAIN.with_steps(-1)
    with pytest.raises(TypeError, match="start must be an object with sample"):
        CHAIN.with_start(None)  # pyrefly: ignore[bad-argument-type]


@pytest.mark.parametrize(
    "kernel",
    [
        aide.kernels.Cycle(WALK, aide.kernels.Ula(0.3)),
        pytest.param(aide.kernels.Ula(0.3), marks=pytest.mark.full),
    ],
)
def test_a_kernel_without_a_reversal_needs_refining_and_says_so_at_once(kernel):
    """The chain is built; what asks for its density hears about it before anything is run."""
    chain = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=kernel, num_steps=10**9)
    gold = aide.Tractable.of(toys.PRIOR)
    runs = {"num_gold": 10**6, "num_target": 10**6}
    for look in (
        lambda: aide.estimate(jax.random.key(1), gold, chain, **runs),
        lambda: aide.estimate(jax.random.key(1), chain, gold, **runs),
        lambda: aide.check(jax.random.key(1), chain),
        lambda: aide.audit(jax.random.key(1), chain),
    ):
        with pytest.raises(ValueError, match=r"no canonical meta-inference.*aide\.refine\(key"):
            look()


def test_kernels_with_momenta_of_their_own_state_are_refused() -> None:
    """Before anything runs, with what to use instead."""
    kernel = aide.kernels.UnderdampedLangevin(0.1, 0.5)
    with pytest.raises(ValueError, match="moves a position and a momentum: use aide.annealed_l"):
        aide.mcmc(Normal(0.0, 1.0), lambda x: -0.5 * x**2, kernel=kernel, num_steps=3)
