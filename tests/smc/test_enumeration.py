r"""$\sum_u r(u; x)\,\xi(u, x) = q(x)$ over *all* traces of small particle filters.

$q(u, x)$ and $r(u; x)$ are enumerated in NumPy from the exact laws of the schemes and their twins
(`reference.hmm`); $\xi(u, x)$ comes from the shipped code, which replays every trace twice: as a
free run and around the retained path. Model: 2 states, 3 steps, nothing symmetric.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.hmm import (
    EMISSION,
    INITIAL,
    OBSERVATIONS,
    TRANSITION,
    all_traces,
    bootstrap,
    enumerate_filter,
    joint,
    optimal,
)
from reference.resampling import LAWS, TWINS, wrong_pinned_to_zero, wrong_unconditional
from reference.scripted import ScriptedExtend, ScriptedInitial, ScriptedScheme, key_per_slot

from aide.algorithms.particle_filter import _trace_back
from aide.algorithms.state_space import Extend, FirstState
from aide.problems import HiddenMarkovModel
from aide.smc.policy import EssBelow, EveryStep, Never
from aide.smc.smc import log_xi_of
from aide.smc.sweep import Retained, run_segment, start

MODEL = HiddenMarkovModel(INITIAL, TRANSITION, EMISSION, OBSERVATIONS)
FILTERS = {"bootstrap": (bootstrap(), None), "optimal": (optimal(), MODEL.optimal_proposal())}
POLICIES = {
    "every step": (np.inf, EveryStep),
    "low ESS": (0.8, lambda scheme: EssBelow(0.8, scheme)),
    "never": (0.0, lambda scheme: Never()),
}
TOLERANCE = 1e-10
VIOLATION = 1e-3


def free_run(proposal, policy, states, ancestors):
    """The shipped log xi of one scripted free run, for every output index."""
    model, key = MODEL.state_space(), jax.random.key(0)
    first = FirstState(model, proposal)
    num = states.shape[1]
    population = start(key, ScriptedInitial(states[0]), first.log_weight, num, None)
    rows = []
    for t in (1, 2):
        move = ScriptedExtend(Extend(model, proposal, OBSERVATIONS[t], t), states[t])
        resampler = policy(ScriptedScheme(ancestors[t - 1]))
        population, (_, row) = run_segment(key, move, resampler, population, None, record=True)
        rows.append(row)
    genealogy = None if rows[0] is None else jnp.stack(rows)

    def log_xi(chosen):
        return log_xi_of(model.log_joint(_trace_back(states, genealogy, chosen)), population)

    return jax.vmap(log_xi)(jnp.arange(num))


def retained_run(proposal, policy, keys, states, ancestors, lineage):
    """The shipped log xi of the same trace, run around the path in the slots `lineage`.

    The script holds a wrong state in the retained slots: the sweep must overwrite it.
    """
    model, key = MODEL.state_space(), jax.random.key(0)
    first = FirstState(model, proposal)
    path = states[jnp.arange(3), lineage]
    script = states.at[jnp.arange(3), lineage].set(1 - path)
    initial = ScriptedInitial(script[0])
    population = start(keys[lineage[0]], initial, first.log_weight, states.shape[1], path[0])
    for t in (1, 2):
        extend = Extend(model, proposal, OBSERVATIONS[t], t)
        kept = Retained(path[t], extend.log_weight(path[t - 1], path[t]))
        resampler = policy(ScriptedScheme(ancestors[t - 1], lineage[t]))
        move = ScriptedExtend(extend, script[t])
        population, _ = run_segment(key, move, resampler, population, kept)
    return log_xi_of(model.log_joint(path), population)


@cache
def shipped_xi(num, name, when):
    """Xi of every trace and output index, [N, P]: from free runs and from retained runs."""
    traces = all_traces(num)
    states, ancestors = jnp.asarray(traces.states), jnp.asarray(traces.ancestors, jnp.int32)
    lineage = jnp.asarray(traces.lineage(), jnp.int32)
    proposal, policy = FILTERS[name][1], POLICIES[when][1]
    keys = key_per_slot(num)

    @jax.jit
    def replay(states, ancestors, lineage):
        free = jax.vmap(lambda s, a: free_run(proposal, policy, s, a))(states, ancestors)
        around = jax.vmap(lambda b, s, a: retained_run(proposal, policy, keys, s, a, b), (0, None, None))
        return jnp.exp(free), jnp.exp(jax.vmap(around)(lineage, states, ancestors))

    return tuple(np.asarray(part) for part in replay(states, ancestors, lineage))


@pytest.mark.parametrize("when", POLICIES)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("num", [1, 2, 3])
def test_xi_averages_to_the_output_density(x64, num, name, when):
    free, around = shipped_xi(num, name, when)
    for scheme in LAWS if when != "never" else ["multinomial"]:
        law, twin = LAWS[scheme], TWINS[scheme]
        found = enumerate_filter(FILTERS[name][0], num, POLICIES[when][0], law, twin)
        q = found.by_path(found.q)
        assert abs(q.sum() - 1) < TOLERANCE
        np.testing.assert_allclose(found.by_path(found.r), 1.0, atol=TOLERANCE)
        np.testing.assert_allclose(found.by_path(found.r * around), q, atol=TOLERANCE)
        np.testing.assert_allclose(free[found.q > 0], around[found.q > 0], atol=TOLERANCE)
        if scheme != "multinomial":  # trace by trace, where the slot is random in the twin too
            np.testing.assert_allclose(found.r * around, found.q, atol=TOLERANCE)
        if when == "low ESS" and num > 1:
            happens = found.low[found.q.sum(axis=1) > 0].mean()
            assert 0.05 < happens < 0.95


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("scheme", ["stratified", "systematic", "residual"])
def test_a_pinned_slot_is_wrong(x64, scheme, num):
    _, around = shipped_xi(num, "bootstrap", "every step")
    found = enumerate_filter(bootstrap(), num, np.inf, LAWS[scheme], wrong_pinned_to_zero)
    np.testing.assert_allclose(found.by_path(found.r), 1.0, atol=TOLERANCE)
    assert abs(found.by_path(found.r * around) - found.by_path(found.q)).max() > VIOLATION
    assert abs(found.by_path(found.r * around).sum() - 1) > VIOLATION


def test_unconditional_ancestors_beside_the_retained_one_are_wrong(x64):
    _, around = shipped_xi(3, "bootstrap", "every step")
    found = enumerate_filter(bootstrap(), 3, np.inf, LAWS["systematic"], wrong_unconditional)
    assert abs(found.by_path(found.r * around) - found.by_path(found.q)).max() > VIOLATION


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("scheme", LAWS)
def test_a_free_run_is_no_meta_inference(x64, scheme, num):
    free, _ = shipped_xi(num, "bootstrap", "every step")
    found = enumerate_filter(bootstrap(), num, np.inf, LAWS[scheme], TWINS[scheme])
    evidence = joint()[found.path[:, 0]] / free[:, 0]
    average = joint() * np.sum(found.q.sum(axis=1) / evidence)
    assert abs(average - found.by_path(found.q)).max() > VIOLATION
