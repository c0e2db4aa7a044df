"""Choosing reverse particles, and the bound against the number of steps."""

import jax
import numpy as np
import pytest

import aide
from aide.estimation.engine import compile_quickly
from aide.problems.distributions import Normal

START, POSTERIOR, KERNEL = Normal(0.5, 2.0), Normal(0.0, 1.0), aide.RandomWalk(1.5)
PARTS = (START, POSTERIOR.log_prob)


@pytest.fixture(scope="module")
def fit():
    options = {"kernel": KERNEL, "num_steps": 6, "num_pilots": 1000, "num_components": 3}
    with compile_quickly():
        return aide.learn_reverse(jax.random.key(1), *PARTS, **options)


def test_tighten_reaches_the_request_or_says_why_not(fit):
    chain = aide.mcmc(*PARTS, kernel=KERNEL, num_steps=6, meta=fit)
    with compile_quickly():
        found = aide.tighten(jax.random.key(2), chain, 0.05, num_runs=100)
        assert found.chain.with_reverse(1) == chain.with_reverse(1)
        assert found.trials[-1].looseness + found.trials[-1].std_error <= 0.05
        assert "reverse particles: looseness" in str(found)
        with pytest.raises(ValueError, match="16 reverse particles leave a looseness"):
            aide.tighten(jax.random.key(2), chain, 1e-9, num_runs=100, most_particles=16)
    with pytest.raises(TypeError, match="must have learned meta-inference"):
        aide.tighten(jax.random.key(2), aide.mcmc(*PARTS, kernel=KERNEL, num_steps=6))


def test_convergence(fit):
    with compile_quickly():
        curve = aide.convergence(
            jax.random.key(3),
            aide.Tractable.of(POSTERIOR),
            *PARTS,
            kernel=KERNEL,
            steps=[6, 0],
            meta=fit,
            num_reverse=50,
            num_gold=300,
            num_target=300,
        )
    assert curve.steps == (0, 6)
    values = [estimate.value for estimate in curve.estimates]
    exact = 0.5 * (4.25 + 1.25 / 4) - 1  # two Gaussians; without steps the bound is exact
    assert abs(values[0] - exact) < 5 * curve.estimates[0].std_error
    assert values[0] > values[1]
    assert curve.steps_within(100.0) == 0
    assert curve.steps_within(-5.0) is None
    shared = [estimate.draws.gold.own[:, 0] for estimate in curve.estimates]
    np.testing.assert_array_equal(shared[0], shared[1])
    assert str(curve).startswith("steps")
    axes = curve.plot().axes[0]
    assert axes.get_xlabel() == "steps of the chain"
    with pytest.raises(ValueError, match="at least one number of steps"):
        aide.convergence(jax.random.key(3), None, *PARTS, kernel=KERNEL, steps=[], meta=fit)
