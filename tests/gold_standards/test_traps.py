"""Posteriors at which gold standards once passed and were wrong: found now, or flagged."""

import jax
import numpy as np
import pytest
from support import Z_MAX
from support.traps import HEALTHY, TRAPS

import aide

FOUND = (
    "nested, 4-D, 1 and 0.03",
    "narrow in wide, 2-D",
    "spike of 0.001 in the middle",
    "regression in raw units",
    "rare values",
)
KEY = jax.random.key(0)


def make(known):
    return aide.gold_standard(KEY, known.log_joint, known.start, progress=False, **known.options)


@pytest.mark.full
@pytest.mark.parametrize("name", FOUND)
def test_what_was_missed_is_found(name):
    """Log evidence, and AIDE from exact draws; half of the mass was missing before."""
    known = TRAPS[name]()
    gold = make(known)
    value, error = gold.record.log_evidence
    assert error < 0.1
    assert abs(value - known.log_evidence) < Z_MAX * error
    assert gold.record.passed, gold
    found = aide.estimate(jax.random.key(1), known.exact, gold, num_gold=100, num_target=100)
    assert found.value - Z_MAX * found.std_error < 0.1


@pytest.mark.full
def test_a_ridge_that_runs_away_is_flagged():
    """Pilots along one path reach its ends, those along the other do not; in words."""
    gold = make(TRAPS["ridge, 5-D"]())
    assert not gold.record.passed
    assert any("ended differently" in doubt for doubt in gold.record.doubts)
    assert "flagged as undecided" in gold.headline
    assert any("ended differently" in text for name, text in gold.rows() if name == "doubt")


@pytest.mark.full
@pytest.mark.parametrize("name", ["two modes, 2-D", "banana, 2-D"])
def test_healthy_ones_are_not_flagged(name):
    gold = make(HEALTHY[name]())
    assert gold.record.passed, gold


@pytest.mark.full
@pytest.mark.parametrize("name", [*TRAPS, *HEALTHY])
def test_the_truth_is_the_truth(name, x64):
    """Exact draws lie in the support, and their density integrates to one."""
    known = {**TRAPS, **HEALTHY}[name]()
    draws = jax.vmap(known.sample)(jax.random.split(KEY, 500))
    log_density = jax.vmap(known.exact.log_density)(draws)
    assert np.all(np.isfinite(log_density))
    if draws.dtype.kind == "f" and draws.shape[1] <= 5 and "ridge" not in name:
        check_mass(known, np.asarray(draws))


def check_mass(known, draws):
    """By importance sampling from normal distributions of all scales about draws."""
    rng, num = np.random.default_rng(1), 4000
    centre, factor = draws.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
    scales = np.array([1e-3, 0.02, 0.03, 0.1, 0.3, 1.0, 2.0])
    places = draws[rng.integers(len(draws), size=num)]
    which = rng.integers(len(scales), size=num)
    noise = rng.normal(size=(num, draws.shape[1]))
    x = places + scales[which, None] * (noise @ factor.T)
    white = np.linalg.solve(factor, (x - centre).T).T
    points = np.linalg.solve(factor, (draws - centre).T).T
    squares = np.maximum(
        np.sum(white**2, 1)[:, None] - 2 * white @ points.T + np.sum(points**2, 1)[None], 0.0
    )
    size = draws.shape[1]
    parts = -0.5 * squares[None] / scales[:, None, None] ** 2 - size * np.log(scales)[:, None, None]
    log_q = np.logaddexp.reduce(
        parts.reshape(-1, num, len(draws)).swapaxes(0, 1).reshape(num, -1), 1
    )
    log_q -= np.log(len(scales) * len(draws)) + 0.5 * size * np.log(2 * np.pi)
    log_q -= np.sum(np.log(np.diag(factor)))
    ratio = np.exp(np.asarray(jax.vmap(known.exact.log_density)(x)) - log_q)
    error = ratio.std() / np.sqrt(num)
    assert error < 0.15
    assert abs(ratio.mean() - 1) < Z_MAX * error
