r"""The Gibbs step, by enumerating all 15 partitions of four data with hyperparameters fixed.

Proven: the shipped conditional probabilities are the reference's to 1e-10, and slots are drawn with
them. The reference's sweep leaves the posterior invariant and the sweep in reverse order is its
reversal, $\pi(x) K(x, y) = \pi(y) \tilde K(y, x)$, to 1e-10.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from support import Z_MAX

from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems.dpmm.clusters import find_rows, gather_clusters, remove_datum
from aide.problems.dpmm.updates import Change, from_value, gibbs_step, make_state, weigh_slots

Y = np.array([0.2, 1.4, 0.5, -0.7])
HYPER = {"alpha": 0.9, "m": 0.2, "r": 0.4, "nu": 2.3, "s": 0.6}
STATES = reference.partitions(4)
INDEX = {z: k for k, z in enumerate(STATES)}


def lanes_of(states, slots=range(4)):
    """One lane per partition, cluster k in slot `slots[k]`, the same hyperparameters in all."""
    labels = jnp.asarray(np.array(slots, np.int32)[np.array(states)].T)
    fill = {name: jnp.full(labels.shape[1], number) for name, number in HYPER.items()}
    return make_state(labels, from_value(fill), gather_clusters(labels, jnp.asarray(Y), 4))


@functools.partial(jax.jit, compiler_options=QUICK_OPTIONS)
def conditional(state, i):
    """Shipped probabilities of all slots for datum i."""
    y, before = jnp.asarray(Y)[i], state.labels[i]
    left = Change(before, remove_datum(find_rows(state.clusters, before, 4), y))
    log_prior, log_likelihood = weigh_slots(state.hyper, state.clusters, left, y, 4)
    return jax.nn.softmax(log_prior + log_likelihood, axis=0)


@functools.partial(jax.jit, compiler_options=QUICK_OPTIONS)
def step(uniform, state, i):
    """The shipped step, and its statistics computed afresh."""
    after = gibbs_step(uniform, state, i, jnp.asarray(Y)[i])
    clusters = gather_clusters(after.labels, jnp.asarray(Y), 4)
    return after, make_state(after.labels, after.hyper, clusters)


@pytest.mark.parametrize("slots", [(0, 1, 2, 3), (2, 0, 3, 1)])
@pytest.mark.parametrize("i", range(4))
def test_conditional_probabilities(x64, i, slots):
    state = lanes_of(STATES, slots)
    shipped = np.asarray(conditional(state, i))
    matrix = reference.gibbs_matrix(Y, HYPER, i)
    labels = np.asarray(state.labels).T.tolist()
    for lane, z in enumerate(labels):
        row = np.zeros(15)
        for slot in range(4):
            after = reference.canonical([*z[:i], slot, *z[i + 1 :]])
            row[INDEX[after]] += shipped[slot, lane]
        assert row == pytest.approx(matrix[lane], abs=1e-10)


def frequencies_z(i, matrix, num=3000):
    """The largest z over all transitions, and whether the statistics stayed consistent."""
    state = lanes_of(np.repeat(STATES, num, axis=0))
    uniform = jax.random.uniform(jax.random.key(20 + i), (15 * num,))
    after, again = step(uniform, state, i)
    for kept, fresh in zip(after.clusters, again.clusters, strict=True):
        assert np.max(np.abs(kept - fresh)) < 1e-12
    assert np.array_equal(after.number, again.number)
    assert int(after.top) >= int(again.top)
    found = [INDEX[reference.canonical(z)] for z in np.asarray(after.labels).T.tolist()]
    counts = np.stack([np.bincount(row, minlength=15) for row in np.reshape(found, (15, num))])
    variance = num * matrix * (1 - matrix)
    assert np.array_equal(counts[matrix == 0], np.zeros(np.sum(matrix == 0)))
    enough = variance > 25.0
    return np.max(np.abs(counts - num * matrix)[enough] / np.sqrt(variance[enough]))


@pytest.mark.parametrize("i", [0, 3, *(pytest.param(i, marks=pytest.mark.full) for i in (1, 2))])
@pytest.mark.full
def test_slots_are_drawn_with_these_probabilities(x64, i):
    assert frequencies_z(i, reference.gibbs_matrix(Y, HYPER, i)) < Z_MAX


def test_wrong_probabilities_are_noticed(x64):
    """A concentration 50% too large, and one predictive density for all clusters."""
    larger = {**HYPER, "alpha": 1.5 * HYPER["alpha"]}
    assert frequencies_z(1, reference.gibbs_matrix(Y, larger, 1)) > 2 * Z_MAX
    flat = {**HYPER, "r": 1e6, "nu": 1e6, "s": 1e6}
    assert frequencies_z(1, reference.gibbs_matrix(Y, flat, 1)) > 2 * Z_MAX


def test_reference_sweep_is_invariant_and_reversed():
    pi = reference.posterior(Y, HYPER)
    ahead = reference.sweep_matrix(Y, HYPER, range(4))
    back = reference.sweep_matrix(Y, HYPER, reversed(range(4)))
    assert pi @ ahead == pytest.approx(pi, abs=1e-10)
    assert pi[:, None] * ahead == pytest.approx((pi[:, None] * back).T, abs=1e-10)
    assert np.max(np.abs(ahead - back)) > 0.05
