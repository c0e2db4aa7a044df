"""AIDE of a particle filter with an exact gold standard against the enumerated truth."""

import jax
import numpy as np
import pytest
from reference.hmm_excess import enumerate_truth

import aide
from aide.experiments.hmm import make_filter
from aide.problems import HiddenMarkovModel

MODEL = HiddenMarkovModel(
    initial=np.array([0.5, 0.3, 0.2]),
    transition=np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.05, 0.7]]),
    emission=np.array([[0.8, 0.15, 0.05], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]),
    observations=np.array([0, 2, 1, 2]),
)
NUM_RUNS = 40_000
pytestmark = pytest.mark.full


def measure(proposal, num, num_meta, num_runs=NUM_RUNS, seed=0):
    target = make_filter(MODEL, proposal, num)
    return aide.estimate(
        jax.random.key(seed),
        MODEL.posterior(),
        target,
        num_gold=num_runs,
        num_target=num_runs,
        num_meta_gold=1,
        num_meta_target=num_meta,
    )


@pytest.mark.parametrize("proposal", ["prior", "optimal"])
@pytest.mark.parametrize("num", [1, 2])
def test_bound_and_excess(proposal, num):
    truth = enumerate_truth(MODEL, proposal == "optimal", num)
    single = measure(proposal, num, 1)
    excess = truth.gold_term + truth.target_term
    assert (excess < 1e-12) if num == 1 else (excess > 0.02)
    z = (single.value - truth.divergence - excess) / single.std_error
    assert abs(z) < 4
    many = measure(proposal, num, 20)
    assert many.value > truth.divergence - 4 * many.std_error
    if num == 2:  # without the excess, or with one of its terms left out, the value is rejected
        for wrong in (0.0, truth.gold_term, truth.target_term):
            z = (single.value - truth.divergence - wrong) / single.std_error
            assert abs(z) > 5
        assert many.value < single.value - 5 * single.std_error


@pytest.mark.parametrize("proposal", ["prior", "optimal"])
def test_one_particle_leaves_nothing_to_infer(proposal):
    """With P = 1 the trace is the output, so meta-inference runs all agree: exactly the same."""
    one, many = (measure(proposal, 1, meta, 200) for meta in (1, 10))
    np.testing.assert_allclose(many.value, one.value, rtol=1e-12)
    two = [measure(proposal, 2, meta, 200).value for meta in (1, 10)]
    assert abs(two[0] - two[1]) > 1e-3
