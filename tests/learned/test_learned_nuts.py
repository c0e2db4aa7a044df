"""NUTS with a learned reverse: tight from a wide start (laws: `test_laws`, `test_check`)."""

import jax
import numpy as np
import pytest

import aide
from aide._core.types import TARGET
from aide.engine.runners.choose import run_pairs
from aide.learned.fitting import em
from aide.problems.distributions import Normal

SIZE, STEPS = 20, 1


def learned(num_pilots=6000):
    """N(0, I) from a start three times as wide."""
    posterior = Normal(np.zeros(SIZE), 1.0)
    kernel = aide.kernels.Nuts(0.5, 4)
    chain = aide.mcmc(
        Normal(np.zeros(SIZE), 3.0), posterior.log_prob, kernel=kernel, num_steps=STEPS
    )
    return aide.refine(
        jax.random.key(1), chain, num_pilots=num_pilots, num_reverse=50, progress=False
    )


@pytest.fixture(scope="module")
def refined():
    return learned()


@pytest.mark.full
def test_a_wide_start_is_retraced(refined, monkeypatch):
    pairs = run_pairs(jax.random.key(2), refined, TARGET, 400)
    assert pairs.looseness + 5 * pairs.std_error < 0.1
    monkeypatch.setattr(em, "_by_origin", lambda *_: [])
    blind = run_pairs(jax.random.key(2), learned(), TARGET, 400)
    assert blind.looseness > 2 * pairs.looseness


@pytest.mark.full
def test_gaussians_come_in_pairs(refined):
    model = refined.fit.models[0]
    moving = (model.branch.shape[1] - 1) // 2
    logs = np.asarray(model.log_gauss)
    assert logs[:, :moving] == pytest.approx(logs[:, moving : 2 * moving])
    centres = np.asarray(model.centre_v)
    assert centres[:, :moving] == pytest.approx(-centres[:, moving : 2 * moving])
