"""Sums over pilots: with curvature they hold what they hold without, and the Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aide
from aide.learned.records.recorders import SmcRecorder
from aide.learned.records.statistics import FOLDS, gather_statistics
from aide.problems.distributions import Normal

PRECISION = np.array([[3.0, -0.8], [-0.8, 1.5]])
NUM = 2048


@pytest.fixture(scope="module")
def found():
    """AIS with three temperatures to a Gaussian, without and with curvature."""
    start = Normal(np.array([0.5, -0.5]), 2.0)
    log_joint = lambda x: -0.5 * x @ jnp.asarray(PRECISION) @ x
    sampler = aide.ais(start, log_joint, kernel=aide.kernels.Mala(0.4), num_temperatures=3)
    gather = lambda hessians: gather_statistics(
        jax.random.key(0), SmcRecorder(sampler), NUM, lambda _: None, hessians
    )
    return gather(False), gather(True)


def test_curvature_adds_rows_and_changes_none(found):
    plain, bent = found
    assert plain.hessians.size == 0
    for one, other in ((plain.before, bent.before), (plain.after, bent.after)):
        assert one.shape[-2:] == (3, 5)
        assert other.shape[-2:] == (5, 5)
        np.testing.assert_allclose(one, other[..., :3, :], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(plain.steps, bent.steps, rtol=1e-9, atol=1e-9)


def test_bends_are_mean_hessians(found):
    """At temperature b the log density of a step has the Hessian -(1 - b) I / 4 - b P."""
    _, bent = found
    assert bent.hessians.shape == (FOLDS, 2, 2, 2, 2)  # folds, steps, before and after, the matrix
    mean = bent.hessians.sum(axis=0) / bent.count.sum()
    for step, temperature in enumerate((1 / 3, 2 / 3)):
        truth = -(1 - temperature) * np.eye(2) / 4 - temperature * PRECISION
        for found_one in mean[step]:
            # e e^T is 1 on the diagonal, so that an entry errs by the others of its row.
            error = np.abs(truth).max() / np.sqrt(NUM)
            np.testing.assert_allclose(found_one, truth, rtol=0, atol=5 * error)
            assert np.abs(found_one + PRECISION).max() > 10 * error  # the wrong temperature
