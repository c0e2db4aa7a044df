r"""$\sum_u r(u; x)\,\xi(u, x) = q(x)$ over *all* traces of small particle filters.

$q(u, x)$ and $r(u; x)$ are enumerated in NumPy from the exact laws of the schemes and their twins
(`reference.hmm`); $\xi(u, x)$ comes from the shipped code, which replays every trace twice: as a
free run and around the retained path (`reference.replay`). Model: 2 states, 3 steps, nothing
symmetric; 1, 2 and 3 particles (up to 1.1 million traces).
"""

import itertools
from functools import cache

import numpy as np
import pytest
from reference.hmm import (
    EMISSION,
    INITIAL,
    OBSERVATIONS,
    TRANSITION,
    Traces,
    all_traces,
    bootstrap,
    enumerate_filter,
    joint,
    optimal,
)
from reference.replay import replay
from reference.resampling import LAWS, TWINS, twin, wrong_pinned_to_zero, wrong_unconditional

from aide.problems import HiddenMarkovModel
from aide.smc.policy import EssBelow, EveryStep, Never

MODEL = HiddenMarkovModel(INITIAL, TRANSITION, EMISSION, OBSERVATIONS)
FILTERS = {"bootstrap": (bootstrap(), None), "optimal": (optimal(), MODEL.optimal_proposal())}
POLICIES = {
    "every step": (2.0, EveryStep),
    "low ESS": (0.8, lambda scheme: EssBelow(0.8, scheme)),
    "never": (0.0, lambda scheme: Never()),
}
QUICK = {(2, "bootstrap", "every step"), (2, "optimal", "low ESS"), (2, "bootstrap", "never")}
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.full)
    for case in itertools.product((1, 2, 3), FILTERS, POLICIES)
]
TWO_OR_THREE = pytest.mark.parametrize("num", [2, pytest.param(3, marks=pytest.mark.full)])
TOLERANCE = 1e-10
VIOLATION = 1e-3


@cache
def shipped_xi(num, name, when):
    """Xi from free and from retained runs; 0 for traces that cannot happen under the policy."""
    fraction, policy = POLICIES[when]
    tables, proposal = FILTERS[name]
    found = enumerate_filter(tables, num, fraction, LAWS["multinomial"], twin)
    possible = found.q[:, 0] > 0
    traces = Traces(*(part[possible] for part in all_traces(num)))
    xi = np.zeros((2, possible.size, num))
    xi[:, possible] = replay(MODEL.state_space(), proposal, policy, traces, found.low[possible])
    return xi


def largest(difference):
    return np.abs(difference).max()


@pytest.mark.parametrize(("num", "name", "when"), CASES)
def test_xi_averages_to_the_output_density(x64, num, name, when):
    free, around = shipped_xi(num, name, when)
    for scheme in LAWS if when != "never" else ["multinomial"]:
        laws = LAWS[scheme], TWINS[scheme]
        found = enumerate_filter(FILTERS[name][0], num, POLICIES[when][0], *laws)
        q = found.by_path(found.q)
        assert abs(q.sum() - 1) < TOLERANCE
        assert largest(found.by_path(found.r) - 1) < TOLERANCE
        assert largest(found.by_path(found.r * around) - q) < TOLERANCE
        assert largest((free - around)[found.q > 0]) < TOLERANCE
        if scheme != "multinomial":  # then the twin's slot is random: trace by trace
            assert largest(found.r * around - found.q) < TOLERANCE
        if when == "low ESS" and num > 1:  # both branches happen
            assert 0.05 < np.mean(found.q.sum(axis=1) @ found.low) < 0.95


@pytest.mark.parametrize("when", ["every step", "low ESS"])
def test_particles_of_weight_zero(x64, when):
    """State 0 cannot emit the second and third symbol: most particles and some runs die."""
    emission = np.array([[1.0, 0.0], [0.1, 0.9]])
    model = HiddenMarkovModel(INITIAL, TRANSITION, emission, OBSERVATIONS).state_space()
    tables, (fraction, policy) = bootstrap(emission), POLICIES[when]
    low = enumerate_filter(tables, 2, fraction, LAWS["multinomial"], twin).low
    free, around = replay(model, None, policy, all_traces(2), low)
    for scheme in LAWS:
        found = enumerate_filter(tables, 2, fraction, LAWS[scheme], TWINS[scheme])
        q = found.by_path(found.q)
        assert 0.1 < q.sum() < 0.9
        average = found.by_path(np.where(found.r > 0, found.r * around, 0.0))
        assert largest(average - q) < TOLERANCE
        assert largest((free - around)[found.q > 0]) < TOLERANCE
        assert (around[(found.r > 0) & (q[found.path] == 0)] == 0).all()


@TWO_OR_THREE
@pytest.mark.parametrize("scheme", ["stratified", "systematic", "residual"])
def test_a_pinned_slot_is_wrong(x64, scheme, num):
    _, around = shipped_xi(num, "bootstrap", "every step")
    found = enumerate_filter(bootstrap(), num, np.inf, LAWS[scheme], wrong_pinned_to_zero)
    average = found.by_path(found.r * around)
    assert largest(found.by_path(found.r) - 1) < TOLERANCE
    assert largest(average - found.by_path(found.q)) > VIOLATION
    assert abs(average.sum() - 1) > VIOLATION


@pytest.mark.full
def test_unconditional_ancestors_beside_the_retained_one_are_wrong(x64):
    """With two particles the mistake has no effect: three are the fewest that show it."""
    found = enumerate_filter(bootstrap(), 3, np.inf, LAWS["systematic"], wrong_unconditional)
    possible = (found.r > 0).any(axis=1)  # one trace in many
    traces = Traces(*(part[possible] for part in all_traces(3)))
    around = np.zeros(found.r.shape)
    low = found.low[possible]
    _, around[possible] = replay(MODEL.state_space(), None, EveryStep, traces, low)
    assert largest(found.by_path(found.r) - 1) < TOLERANCE
    assert largest(found.by_path(found.r * around) - found.by_path(found.q)) > VIOLATION


@TWO_OR_THREE
@pytest.mark.parametrize("scheme", LAWS)
def test_a_free_run_is_no_meta_inference(x64, scheme, num):
    free, _ = shipped_xi(num, "bootstrap", "every step")
    found = enumerate_filter(bootstrap(), num, np.inf, LAWS[scheme], TWINS[scheme])
    evidence = joint()[found.path[:, 0]] / free[:, 0]
    average = joint() * np.sum(found.q.sum(axis=1) / evidence)
    assert largest(average - found.by_path(found.q)) > VIOLATION
