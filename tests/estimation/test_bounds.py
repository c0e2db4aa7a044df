r"""What follows from an estimate: total variation, constants, two-sided evidence bounds.

With an exact gold standard whose $\xi$ is $p(x, y)$ and a normalised target, the two directions
bracket $\log p(y)$; the truth is a Gaussian density computed with SciPy.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support import Z_MAX
from support.pairs import KEY, gaussian, run, unnormalised

import aide
from aide._core.types import GOLD, TARGET
from aide.problems import LinearRegression
from aide.problems.distributions import Normal

EXACT = 1e-10


@pytest.mark.parametrize("divergence", [1e-12, 1e-6, 0.01, 0.5, 1.0, 4.0, 20.0])
def test_total_variation_solves_its_equation(divergence):
    v = aide.estimation.total_variation_bound(divergence)
    assert 2 * v * math.log((1 + v) / (1 - v)) == pytest.approx(divergence, rel=1e-6)
    assert v <= min(1.0, 0.5 * math.sqrt(divergence) * (1 + 1e-12))


def test_total_variation_at_the_ends():
    assert aide.estimation.total_variation_bound(0.0) == 0.0
    assert aide.estimation.total_variation_bound(-0.1) == 0.0
    assert aide.estimation.total_variation_bound(math.inf) == 1.0
    assert 1 - 1e-9 < aide.estimation.total_variation_bound(1000.0) <= 1.0


def test_known_constants_are_taken_off():
    plain = run(gaussian(0.1, 0.7), gaussian(0.3, 1.3))
    for shift_gold, shift_target in ((2.5, 0.0), (2.5, -1.5)):
        gold = unnormalised(0.1, 0.7, shift_gold, shift_gold)
        shifted = run(gold, unnormalised(0.3, 1.3, shift_target, shift_target))
        assert shifted.gold_to_target == pytest.approx(plain.gold_to_target, abs=EXACT)
        assert shifted.target_to_gold == pytest.approx(plain.target_to_gold, abs=EXACT)
        assert shifted.value == pytest.approx(plain.value, abs=EXACT)
        assert shifted.log_z_bounds is None


X, Y, NOISE, PRIOR = np.array([-2.0, 1.0, 2.0]), np.array([-1.0, 0.5, 2.5]), 0.8, 1.5
DESIGN = np.stack([np.ones(3), X], axis=1)
LOG_EVIDENCE = stats.multivariate_normal.logpdf(
    Y, np.zeros(3), NOISE**2 * np.eye(3) + PRIOR**2 * DESIGN @ DESIGN.T
)


def _evidence_bounds(target, shift) -> Any:
    """Bounds on log Z of the exact posterior with density p(x, y) e^shift."""
    problem = LinearRegression(tuple(X), tuple(Y), NOISE, PRIOR)
    joint = lambda x: problem.log_joint(x) + shift
    gold = aide.Tractable(problem.posterior().sample, joint, log_z=None)
    result = aide.estimate(KEY, gold, target(problem), num_gold=400, num_target=400)
    assert not result.gold_to_target.is_kl_bound
    assert not result.target_to_gold.is_kl_bound
    return result.log_z_bounds


TARGETS = {
    "sir": lambda p: aide.sir(p.prior(), p.log_joint, num_particles=20),
    "fit": lambda p: aide.Tractable.of(Normal([0.4, 0.7], [0.4, 0.3])),
}


@pytest.mark.parametrize(
    "name", [n if n == "sir" else pytest.param(n, marks=pytest.mark.full) for n in TARGETS]
)
@pytest.mark.full
def test_evidence_bounds_bracket_the_truth(name):
    bounds = _evidence_bounds(TARGETS[name], 0.0)
    assert bounds.of is GOLD
    assert bounds.lower.value - Z_MAX * bounds.lower.std_error <= LOG_EVIDENCE
    assert LOG_EVIDENCE <= bounds.upper.value + Z_MAX * bounds.upper.std_error


@pytest.mark.parametrize("shift", [-8.0, pytest.param(8.0, marks=pytest.mark.full)])
def test_evidence_bounds_can_fail(shift):
    """Control: a joint density that is off by a constant has another evidence."""
    bounds = _evidence_bounds(TARGETS["fit"], shift)
    low = (bounds.lower.value - LOG_EVIDENCE) / bounds.lower.std_error
    high = (LOG_EVIDENCE - bounds.upper.value) / bounds.upper.std_error
    assert max(low, high) > 2 * Z_MAX


def _bounds_of_the_target(shift) -> Any:
    target = unnormalised(0.3, 1.3, None, shift)
    return run(gaussian(0.1, 0.7), target, 400, 400).log_z_bounds


def test_evidence_bounds_of_the_target():
    """Mirror image: the unknown constant may sit on the target's side."""
    bounds = _bounds_of_the_target(2.0)
    assert bounds.of is TARGET
    assert bounds.lower.value - Z_MAX * bounds.lower.std_error <= 2.0
    assert bounds.upper.value + Z_MAX * bounds.upper.std_error >= 2.0


def test_evidence_bounds_of_the_target_can_fail():
    """Control: another constant is not bracketed."""
    bounds = _bounds_of_the_target(10.0)
    assert (bounds.lower.value - 2.0) / bounds.lower.std_error > 2 * Z_MAX
