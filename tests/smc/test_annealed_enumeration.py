r"""$\sum_u r(u; x)\,\xi(u, x) = q(x)$ over all traces of AIS and tempered SMC with Gibbs sweeps.

$q$ and $r$ come from exact kernel matrices (`reference.annealing`), $\xi$ from the shipped
algorithms, whose kernel and random draws are scripted.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.annealing import (
    GAMMA,
    PRIOR,
    STATES,
    TEMPERATURES,
    enumerate_smc,
    enumerate_sweeps,
)
from reference.resampling import LAWS, TWINS, twin
from reference.scripted import ScriptedInitial, ScriptedKernel, ScriptedScheme, Table, key_per_slot

import aide
from aide._core.distribution import SampleFrom
from aide.smc.smc import log_xi_of
from aide.smc.sweep import run_segment, start, walk_back

FORWARD, BACKWARD = (0, 1), (1, 0)
SCHEDULE = np.array([0.4, 1.0])
"""Temperatures of the runs with two particles."""
TOLERANCE = 1e-10
VIOLATION = 1e-3


def tempered_smc(first, kernel, temperatures, scheme):
    return aide.tempered_smc(
        ScriptedInitial(first, Table(PRIOR)),
        Table(GAMMA),
        kernel=kernel,
        num_particles=first.shape[0],
        temperatures=temperatures,
        resampler=aide.smc.EveryStep(scheme),
    )


def other(state):
    """A state that differs from the given one in both sites."""
    return (state + 1) % 3


def whole_script(*parts):
    """One kernel that knows all steps."""
    return ScriptedKernel(TEMPERATURES[:-1], *parts)


def script_by_step(*parts):
    """One kernel per step, which knows that step alone."""
    alone = [[part[t : t + 1] for part in (TEMPERATURES, *parts)] for t in range(2)]
    return [ScriptedKernel(*one) for one in alone]


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, 0))
def shipped_ais(build, trace):
    """Xi of one trace [3, sites], by `simulate` and by `regenerate`, and the output."""
    key, scheme = jax.random.key(0), ScriptedScheme(jnp.zeros(1, jnp.int32))
    script = build(trace[1:, None])
    draw = tempered_smc(trace[:1], script, TEMPERATURES, scheme).simulate(key)
    script = build(other(trace[1:, None]), trace[:-1])
    again = tempered_smc(other(trace[:1]), script, TEMPERATURES, scheme)
    return draw.value, jnp.exp(draw.log_xi), jnp.exp(again.regenerate(key, trace[-1]))


def free_run(first, ancestors, last):
    """Log xi of one trace of two particles, for both output indices."""
    key = jax.random.key(0)
    script = ScriptedKernel(SCHEDULE[:1], last[None])
    smc = tempered_smc(first, script, SCHEDULE, ScriptedScheme(ancestors))
    population = start(key, SampleFrom(smc.start), smc.log_first_weight, 2, None)
    population, _ = run_segment(key, smc.moves[0], smc.resampler, population, None)
    return jax.vmap(lambda x: log_xi_of(smc.log_joint(x), population))(last)


def retained_run(keys, first, ancestors, last, slot):
    """Log xi of the same trace, run around the path that ends in `slot`.

    As in `Smc.regenerate`; the script holds wrong states where the retained ones belong.
    """
    before, x = ancestors[slot], last[slot]
    moves = last.at[slot].set(other(x))[None]
    script = ScriptedKernel(SCHEDULE[:1], moves, first[before][None])
    starts = first.at[before].set(other(first[before]))
    smc = tempered_smc(starts, script, SCHEDULE, ScriptedScheme(ancestors, slot))
    kept, path = walk_back(keys[0], smc.moves[0], x)
    population = start(keys[before], SampleFrom(smc.start), smc.log_first_weight, 2, kept)
    population, _ = run_segment(keys[0], smc.moves[0], smc.resampler, population, path)
    return log_xi_of(smc.log_joint(x), population)


@cache
def shipped_smc():
    """Xi of all traces, [2, N, 2]: from free and from retained runs."""
    laws = enumerate_smc(SCHEDULE[0], LAWS["multinomial"], twin, FORWARD, BACKWARD)
    first, last = jnp.asarray(STATES[laws.first]), jnp.asarray(STATES[laws.last])
    trace = first, jnp.asarray(laws.ancestors, jnp.int32), last
    free = jax.jit(jax.vmap(free_run))(*trace)
    around = jax.vmap(retained_run, (None, None, None, None, 0))
    around = jax.jit(jax.vmap(around, (None, 0, 0, 0, None)))
    kept = around(key_per_slot(2), *trace, jnp.arange(2, dtype=jnp.int32))
    return np.exp(np.stack([free, kept]))


def by_output(outputs, values):
    return np.bincount(outputs.ravel(), values.ravel(), minlength=len(STATES))


SWEEPS = {
    "one kernel": (whole_script, (FORWARD, FORWARD), (BACKWARD, BACKWARD), (FORWARD, FORWARD)),
    "one per step": (script_by_step, ((1, 1), FORWARD), ((1, 1), BACKWARD), (BACKWARD, (1, 1))),
}
"""How the script is given; sweeps forward, backward, and backward with a mistake."""


@pytest.mark.parametrize("name", SWEEPS)
def test_ais(x64, name):
    build, forward, backward, mistaken = SWEEPS[name]
    laws = enumerate_sweeps(forward, backward)
    traces = jnp.asarray(STATES[laws.traces])
    value, own, again = (np.asarray(a) for a in shipped_ais(build, traces))
    output = laws.traces[:, 2]
    np.testing.assert_array_equal(value @ (3, 1), output)
    np.testing.assert_allclose(own, again, rtol=TOLERANCE)
    np.testing.assert_allclose(laws.r * again, laws.q, rtol=0, atol=TOLERANCE)
    q = by_output(output, laws.q)
    assert abs(q.sum() - 1) < TOLERANCE
    np.testing.assert_allclose(by_output(output, laws.r), 1, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(by_output(output, laws.r * again), q, rtol=0, atol=TOLERANCE)
    wrong = enumerate_sweeps(forward, mistaken)
    assert np.abs(by_output(output, wrong.r * again) - q).max() > VIOLATION


QUICK = {"multinomial", "systematic"}
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in LAWS]


@pytest.mark.parametrize("name", NAMES)
def test_tempered_smc(x64, name):
    laws = enumerate_smc(SCHEDULE[0], LAWS[name], TWINS[name], FORWARD, BACKWARD)
    free, around = shipped_smc()
    np.testing.assert_allclose(free, around, rtol=TOLERANCE)
    if name != "multinomial":
        np.testing.assert_allclose(laws.r * around, laws.q, rtol=0, atol=TOLERANCE)
    q = by_output(laws.last, laws.q)
    assert abs(q.sum() - 1) < TOLERANCE
    np.testing.assert_allclose(by_output(laws.last, laws.r), 1, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(by_output(laws.last, laws.r * around), q, rtol=0, atol=TOLERANCE)
    wrong = enumerate_smc(SCHEDULE[0], LAWS[name], TWINS[name], FORWARD, FORWARD)
    np.testing.assert_allclose(by_output(wrong.last, wrong.r), 1, rtol=0, atol=TOLERANCE)
    assert np.abs(by_output(wrong.last, wrong.r * around) - q).max() > VIOLATION
