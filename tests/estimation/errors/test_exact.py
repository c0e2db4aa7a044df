"""The identities behind all estimates of errors, by enumeration of a small discrete problem."""

import itertools

import numpy as np
import pytest

from aide._core.types import GOLD, TARGET
from aide.estimation.errors.overlap import Overlap, bennett_constant
from aide.estimation.errors.quantities import probability_error
from aide.estimation.errors.statistics import estimate_statistics
from aide.estimation.errors.total_variation import (
    hellinger_sizes,
    jensen_shannon_sizes,
    total_variation_sizes,
)

EXACT = 1e-12
STATES, TRACES = 3, 2


class Table:
    """A discrete algorithm: q(u, x) and r(u; x) as tables, states first."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.joint = rng.dirichlet(np.full(STATES * TRACES, 0.7)).reshape(STATES, TRACES)
        self.meta = rng.dirichlet(np.full(TRACES, 0.9), size=STATES)
        self.output = self.joint.sum(axis=1)

    def xi(self, x: int, traces: tuple[int, ...]) -> float:
        return float(np.mean([self.joint[x, u] / self.meta[x, u] for u in traces]))

    def own(self, x: int, traces: tuple[int, ...]) -> float:
        """Of the output and M traces, the first of them the one really used."""
        rest = np.prod([self.meta[x, u] for u in traces[1:]])
        return float(self.joint[x, traces[0]] * rest)

    def scored(self, x: int, traces: tuple[int, ...]) -> float:
        return float(np.prod([self.meta[x, u] for u in traces]))


def enumerate_pair(num_gold: int, num_target: int, share: float, offset: float = 0.0):
    """All runs of either algorithm with their probabilities, as an `Overlap` of equal weights."""
    gold, target = Table(1), Table(2)
    x, ratio, prob_gold, prob_target = [], [], [], []
    traces = [itertools.product(range(TRACES), repeat=m) for m in (num_gold, num_target)]
    for state, u, v in itertools.product(range(STATES), list(traces[0]), list(traces[1])):
        x.append(state)
        ratio.append(np.log(gold.xi(state, u)) - np.log(target.xi(state, v)) + offset)
        prob_gold.append(gold.own(state, u) * target.scored(state, v))
        prob_target.append(target.own(state, v) * gold.scored(state, u))
    num = len(x)
    overlap = Overlap(np.tile(ratio, 2), num, share, True)
    # Each weight is per run; an expectation needs the probability of the run instead of 1/N.
    per_run = np.concatenate([num * np.array(prob_gold), num * np.array(prob_target)])
    return gold, target, np.tile(x, 2), overlap, per_run


@pytest.mark.parametrize("metas", [(1, 1), (2, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("share", [0.5, 0.2, 0.9])
def test_weights_are_unbiased_for_every_function(metas, share):
    gold, target, x, overlap, per_run = enumerate_pair(metas[0], metas[1], share)
    for f in np.eye(STATES)[:, x]:
        as_gold = np.sum(per_run * overlap.as_gold * f)
        as_target = np.sum(per_run * overlap.as_target * f)
        assert as_gold == pytest.approx(gold.output @ np.eye(STATES)[int(x[f == 1][0])], abs=EXACT)
        assert as_target == pytest.approx(target.output[int(x[f == 1][0])], abs=EXACT)


@pytest.mark.parametrize("metas", [(1, 1), (2, 3)])
def test_the_difference_is_a_mean_of_bounded_terms(metas):
    r"""$E_P f - E_Q f = E_P[f\tanh(\ell/2)] + E_Q[f\tanh(\ell/2)]$, and $TV(p, q) \le TV(P, Q)$."""
    gold, target, x, overlap, per_run = enumerate_pair(metas[0], metas[1], 0.5)
    f = np.array([1.3, -0.4, 2.9])[x]
    terms = per_run / overlap.num_gold * np.tanh(overlap.log_ratio / 2)
    truth = gold.output @ [1.3, -0.4, 2.9] - target.output @ [1.3, -0.4, 2.9]
    assert np.sum(terms * f) == pytest.approx(truth, abs=EXACT)
    np.testing.assert_allclose(
        overlap.as_gold - overlap.as_target,
        np.tanh(overlap.log_ratio / 2) / overlap.num_gold,
        atol=EXACT,
    )
    extended = 0.5 * np.sum(np.abs(terms))
    outputs = 0.5 * np.sum(np.abs(gold.output - target.output))
    assert outputs <= extended + EXACT


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_controls_add_up_to_nothing(share):
    *_, x, overlap, per_run = enumerate_pair(2, 1, share)
    functions = np.stack([np.ones(x.size), x, x**2.0])
    np.testing.assert_allclose((functions * overlap.control) @ per_run, 0.0, atol=EXACT)
    step = 1e-6
    sides = [
        Overlap(overlap.log_ratio - c, overlap.num_gold, share, True).control.sum()
        for c in (-step, step)
    ]
    assert overlap.control_slope == pytest.approx((sides[1] - sides[0]) / (2 * step), rel=1e-6)
    weights = Overlap(overlap.log_ratio + 0.7, overlap.num_gold, share, True).control
    assert abs(weights @ per_run) > 1e-3  # the control of this test: a constant that is off


def test_wrong_ratios_break_the_identity():
    """Controls: the sign at the target's outputs, a constant that is off, a trace too many."""
    gold, target, x, overlap, per_run = enumerate_pair(1, 1, 0.5)
    f = x.astype(float)
    truth = gold.output @ np.arange(STATES)
    part = overlap.part(TARGET)
    flipped = overlap.log_ratio.copy()
    flipped[part] *= -1
    for wrong in (flipped, overlap.log_ratio + 0.7, 1.5 * overlap.log_ratio):
        weights = Overlap(wrong, overlap.num_gold, 0.5, True).as_gold
        assert abs(np.sum(per_run * weights * f) - truth) > 0.02


def test_bennetts_equation_finds_the_constant():
    """With runs in exact proportion, c is the log ratio of both constants."""
    gold, target, x, overlap, per_run = enumerate_pair(1, 1, 0.5, offset=1.7)
    counts = np.round(per_run / overlap.num_gold * 200_000).astype(int)
    ratio = np.repeat(overlap.log_ratio, counts)
    num_gold = int(counts[overlap.part(GOLD)].sum())
    assert bennett_constant(ratio, num_gold, 0.5) == pytest.approx(1.7, abs=1e-4)
    assert bennett_constant(np.full(4, np.inf), 2, 0.5) == 0.0


def test_infinite_ratios_are_plain_differences():
    """Where no output of one has mass under the other, each sample stands for itself."""
    overlap = Overlap(np.repeat([np.inf, -np.inf], [30, 20]), 30, 0.6, True)
    x = np.repeat([1.0, 0.0, 1.0, 0.0], [12, 18, 5, 15])
    found = estimate_statistics(overlap, [probability_error(overlap, x)], x[None])
    assert found.value == pytest.approx(5 / 20 - 12 / 30, abs=EXACT)
    plain = 0.4 * 0.6 / 29 + 0.25 * 0.75 / 19
    assert found.std_error**2 == pytest.approx(plain + 1 / 30**2 + 1 / 20**2)


SIZES = {
    "tv": (total_variation_sizes, lambda p, q: 0.5 * np.sum(np.abs(p - q))),
    "js": (
        jensen_shannon_sizes,
        lambda p, q: (
            0.5 * np.sum(p * np.log2(2 * p / (p + q))) + 0.5 * np.sum(q * np.log2(2 * q / (p + q)))
        ),
    ),
    "hellinger": (hellinger_sizes, lambda p, q: 1 - np.sum(np.sqrt(p * q))),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("metas", [(1, 1), (2, 1), (1, 3)])
def test_means_of_sizes_are_the_divergence_of_all_traces(name, metas):
    """By enumeration: the extended divergence exactly, at least that of the outputs."""
    gold, target, _, overlap, per_run = enumerate_pair(metas[0], metas[1], 0.5)
    num, (sizes, divergence) = overlap.num_gold, SIZES[name]
    found = 0.5 * np.sum(per_run / num * sizes(overlap.log_ratio))
    traces = [list(itertools.product(range(TRACES), repeat=m)) for m in metas]
    laws = [  # of the output and all traces, whichever of them was the one really used
        [one.xi(x, (u, v)[k]) * gold.scored(x, u) * target.scored(x, v) for x, u, v in places]
        for k, one in enumerate((gold, target))
        for places in [itertools.product(range(STATES), traces[0], traces[1])]
    ]
    p, q = map(np.array, laws)
    assert found == pytest.approx(divergence(p, q), abs=EXACT)
    assert divergence(gold.output, target.output) <= found + EXACT
    wrong = 0.5 * np.sum(per_run / num * sizes(overlap.log_ratio + 2.0))  # the control
    assert abs(wrong - found) > 1e-3
