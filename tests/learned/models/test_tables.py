r"""Discrete states: reverse models by table, against enumeration.

The nine states of `reference.annealing`; a Gibbs sweep over the sites 0, 1, 0 and a Metropolis walk
around the first site. Tables are made up, and bad.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.annealing import GAMMA, PRIOR, STATES, gibbs_sweep
from support import Z_MAX, z_score
from support.learned import (
    TABLE_CHAINS,
    hop_matrix,
    log_nine,
    made_up_table,
    start_on_nine,
    table_chain,
    with_wrong_table,
)

import aide
from aide.engine.programs.programs import QUICK_OPTIONS as QUICK
from aide.engine.programs.programs import compile_quickly
from aide.learned.models.joint import redirect, states_of, strides_of

NUM_RUNS = 6_000


def test_states_are_numbered():
    states = states_of(np.array([-1.0, 2.0]), np.array([1.0, 3.0]))
    assert states.tolist() == [[-1, 2], [-1, 3], [0, 2], [0, 3], [1, 2], [1, 3]]
    strides = strides_of(np.array([-1.0, 2.0]), np.array([1.0, 3.0]))
    np.testing.assert_array_equal((states - [-1.0, 2.0]) @ strides, np.arange(6))


@pytest.mark.full
def test_the_joint_sums_to_the_marginal_and_is_proposed(x64):
    """Also where a branch is impossible; outside the box only the kernel's component is left."""
    model = jax.tree.map(jnp.asarray, made_up_table(np.random.default_rng(0), 3))
    y = jnp.asarray(STATES.T, float)
    score, propose = (jax.jit(lambda *a, m=m: m(*a)) for m in (model.score, model.propose))
    scores, log_q = score(y, jnp.log(jnp.asarray(GAMMA)))
    own = jnp.asarray(np.random.default_rng(1).dirichlet(np.ones(3), 9).T)
    possible = jnp.asarray([[True] * 9, [True, False, True] * 3, [True] * 9])
    own = jnp.where(possible, own, 0.0) / jnp.sum(jnp.where(possible, own, 0.0), axis=0)
    none = jnp.zeros((0, 9))
    log_joint = jax.jit(
        lambda b: model.log_joint(scores, y, none, jnp.full(9, b), possible, jnp.log(own)[b])
    )
    joint = np.exp(np.stack([log_joint(branch) for branch in range(3)]))
    np.testing.assert_allclose(joint.sum(axis=0), np.exp(log_q), rtol=1e-12)
    num = 20_000
    point = (np.arange(num) + 0.5) / num
    for state in (0, 4, 7):
        many = jnp.repeat(y[:, state : state + 1], num, axis=1)
        wide = jnp.repeat(scores[:, state : state + 1], num, axis=1)
        guess = propose(jnp.asarray(point), jnp.zeros((0, num)), wide, many)
        here = jnp.repeat(possible[:, state : state + 1], num, axis=1)
        branch = jax.jit(redirect)(guess.branch, here)
        found = np.bincount(branch[~np.asarray(guess.own)], minlength=3) / num
        found = found + np.mean(guess.own) * np.asarray(own[:, state])
        np.testing.assert_allclose(found, joint[:, state] / joint[:, state].sum(), atol=5e-4)
    outside, _ = score(jnp.full((2, 1), 5.0), jnp.zeros(1))
    assert outside[0, 0] == model.log_kernel
    assert np.all(np.asarray(outside[1:]) == -np.inf)


CASES = [
    pytest.param(name, num, marks=() if (name, num) == ("hop", 2) else pytest.mark.full)
    for name in TABLE_CHAINS
    for num in (1, 2, 3)
]


@pytest.mark.parametrize(("name", "num_reverse"), CASES)
@pytest.mark.full
def test_xi_averages_to_the_output_density(name, num_reverse, x64):
    """Also around true runs: E[1/xi; x] = 1 for every state."""
    algorithm = table_chain(name, num_reverse)
    _, matrix = TABLE_CHAINS[name]
    q = PRIOR @ matrix @ matrix
    runs = jnp.arange(NUM_RUNS)
    keys = jax.vmap(jax.random.key)(runs)
    states = jnp.asarray(STATES, jnp.int32)
    regenerate = jax.jit(jax.vmap(algorithm.regenerate, (0, None)), compiler_options=QUICK)
    for number, state in enumerate(states):
        xi = np.exp(np.asarray(regenerate(keys, state)))
        assert abs(z_score(xi - q[number])) < Z_MAX
    draws = jax.jit(jax.vmap(algorithm.simulate), compiler_options=QUICK)(keys)
    number = np.asarray(draws.value @ jnp.array([3, 1]))
    inverse = np.exp(-np.asarray(draws.log_xi))
    for state in range(9):
        assert abs(z_score((number == state) * inverse - 1.0)) < Z_MAX
        assert abs(z_score((number == state) * 1.0 - q[state])) < Z_MAX


def test_a_wrong_table_is_rejected(x64):
    """The claimed density is that of another table than the one that proposes."""
    algorithm = with_wrong_table(table_chain("hop", 1))
    keys = jax.vmap(jax.random.key)(jnp.arange(NUM_RUNS))
    states = jnp.asarray(STATES, jnp.int32)
    run = jax.jit(jax.vmap(algorithm.regenerate, (0, None)), compiler_options=QUICK)
    q = PRIOR @ hop_matrix() @ hop_matrix()
    scores = [z_score(np.exp(np.asarray(run(keys, s))) - q[i]) for i, s in enumerate(states)]
    assert max(map(abs, scores)) > 2 * Z_MAX


@pytest.mark.full
def test_learned_tables_are_tight():
    kernel, matrix = TABLE_CHAINS["sweep"]
    gold = np.array(GAMMA) / np.sum(GAMMA)
    cumulative = jnp.asarray(np.cumsum(gold), jnp.float32)
    exact = aide.Tractable(
        lambda key: jnp.asarray(STATES, jnp.int32)[
            jnp.searchsorted(cumulative, jax.random.uniform(key, dtype=jnp.float32))
        ],
        lambda x: log_nine(x) - float(np.log(np.sum(GAMMA))),
    )
    options = {"kernel": aide.kernels.GibbsSites([0, 1], 3), "num_steps": 2}
    sweep = gibbs_sweep(GAMMA, (0, 1))
    q = PRIOR @ sweep @ sweep
    divergence = np.sum((q - gold) * np.log(q / gold))
    key = jax.random.key(1)
    with compile_quickly():
        chain = aide.mcmc(start_on_nine(), log_nine, **options)
        learned = aide.refine(key, chain, num_pilots=500, num_reverse=30)
        result = aide.estimate(jax.random.key(2), exact, learned, num_gold=500, num_target=500)
    fit = learned.fit
    assert abs(fit.log_z[0] - np.log(np.sum(GAMMA))) < 1e-9
    assert abs(result.value - divergence) < Z_MAX * result.std_error + 0.02
    loose = result.looseness.target
    assert loose is not None
    assert abs(loose.value) < 0.02
    assert fit.notes == ()


def test_a_table_that_is_too_large_is_refused():
    large = aide.Tractable(
        lambda key: jax.random.randint(key, (20,), 0, 2, jnp.int32), lambda x: -20 * np.log(2)
    )
    options = {"kernel": aide.kernels.GibbsSites([0], 2), "num_steps": 1}
    chain = aide.mcmc(large, lambda x: 0.0 * jnp.sum(x), **options)
    with pytest.raises(ValueError, match=r"would have 2.1e\+06 entries"):
        aide.refine(jax.random.key(0), chain, num_pilots=60)
