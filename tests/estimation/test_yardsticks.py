r"""Probes and evidence estimates equal plain NumPy on the kept outputs."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from reference.algorithm2 import mean_and_error
from support.pairs import LOG_ROOT_TWO_PI, gaussian, run, unnormalised

import aide

STD = 0.6


def _log_joint(x):
    return -0.5 * ((x - 0.8) / STD) ** 2 + 0.3


def _numpy_log_joint(x):
    return -0.5 * ((x - 0.8) / STD) ** 2 + 0.3


@pytest.fixture(scope="module")
def result():
    target = aide.sir(gaussian(0.2, 1.1), _log_joint, num_particles=3)
    return run(gaussian(0.8, STD), target, 25, 40, keep_values=True)


PROBES = {
    "jax": (lambda x: jnp.sin(x) ** 2, lambda x: math.sin(x) ** 2),
    "python": (lambda x: math.sin(x), lambda x: math.sin(x)),
    "branch": (lambda x: 1.0 if x > 0.5 else -2.0, lambda x: 1.0 if x > 0.5 else -2.0),
    "table": (
        lambda x: [0.0, 3.0, 7.0][int(abs(x)) % 3],
        lambda x: [0.0, 3.0, 7.0][int(abs(x)) % 3],
    ),
    "numpy": (lambda x: np.interp(x, [0.0, 1.0], [2.0, 5.0]), lambda x: 2 + 3 * min(max(x, 0), 1)),
    "boolean": (lambda x: x > 0.5, lambda x: float(x > 0.5)),
}


@pytest.mark.parametrize("name", PROBES)
def test_probe(result, name):
    probe, plain = PROBES[name]
    comparison = aide.compare_probe(result, probe)
    expected = [
        mean_and_error([plain(float(x)) for x in np.asarray(side.values)])
        for side in (result.draws.gold, result.draws.target)
    ]
    assert comparison.gold == pytest.approx(expected[0], abs=1e-10)
    assert comparison.target == pytest.approx(expected[1], abs=1e-10)
    assert comparison.difference.value == pytest.approx(expected[1][0] - expected[0][0], abs=1e-10)
    error = math.hypot(expected[0][1], expected[1][1])
    assert comparison.difference.std_error == pytest.approx(error, abs=1e-10)
    assert aide.compare_probe(result.draws, probe) == comparison


def test_log_evidence(result):
    comparison = aide.compare_log_evidence(result, _log_joint)
    for mean, side in (
        (comparison.gold, result.draws.gold),
        (comparison.target, result.draws.target),
    ):
        terms = _numpy_log_joint(np.asarray(side.values)) - side.own[:, 0]
        assert mean == pytest.approx(mean_and_error(terms), abs=1e-10)
    truth = 0.3 + math.log(STD) + LOG_ROOT_TWO_PI  # the gold standard is exact: every term is this
    assert comparison.gold == pytest.approx((truth, 0.0), abs=1e-10)


def test_log_evidence_with_a_known_constant():
    gold, target = unnormalised(0.8, STD, 4.0, 4.0), gaussian(0.8, STD)
    result = run(gold, target, keep_values=True)
    comparison = aide.compare_log_evidence(result, _log_joint)
    assert comparison.gold.value == pytest.approx(comparison.target.value, abs=1e-10)


def test_log_evidence_outside_the_support(result):
    """Outputs of density zero: the mean is -inf, its error infinite, and nothing warns."""
    log_joint = lambda x: jnp.where(x > 0.5, _log_joint(x), -jnp.inf)
    comparison = aide.compare_log_evidence(result, log_joint)
    assert comparison.gold.value == -math.inf
    assert comparison.gold.std_error == math.inf


def test_values_are_needed():
    lean = run(gaussian(0.8, STD), gaussian(0.2, 1.1), keep_values=False)
    with pytest.raises(ValueError, match="keep_values=True"):
        aide.compare_probe(lean, jnp.sin)
    with pytest.raises(ValueError, match="keep_values=True"):
        aide.compare_log_evidence(lean.draws, _log_joint)


def test_unknown_constant():
    unknown = unnormalised(0.8, STD, None, 4.0)
    result = run(unknown, gaussian(0.2, 1.1), keep_values=True)
    with pytest.raises(ValueError, match="gold algorithm makes no evidence estimate.*log_z"):
        aide.compare_log_evidence(result, _log_joint)


def test_functions_that_return_the_wrong_thing(result):
    with pytest.raises(ValueError, match=r"one number per output, got shape \(2,\)"):
        aide.compare_probe(result, lambda x: jnp.stack([x, x]))
    with pytest.raises(ValueError, match=r"one number per output, got shape \(2,\)"):
        aide.compare_probe(result, lambda x: np.array([float(x), 1.0]))
    with pytest.raises(ValueError, match=r"nan for \d+ outputs"):
        aide.compare_probe(result, jnp.log)


def test_one_kept_output_per_side():
    result = run(gaussian(0.8, STD), gaussian(0.2, 1.1), 1, 1, keep_values=True)
    comparison = aide.compare_probe(result, jnp.sin)
    assert math.isnan(comparison.gold.std_error)
    assert comparison.gold.value == pytest.approx(math.sin(result.draws.gold.values[0]))
