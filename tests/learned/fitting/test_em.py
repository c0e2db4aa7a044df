"""Where EM begins."""

import numpy as np
import pytest

from aide.learned.fitting.em import (
    RecordsAtTime,
    fit_times,
    gaussian_slots,
    mean_log_joint,
    mirror_of,
    start_moments,
)

SIZE = 6


def records(seed, tells, num=4000):
    """One pilot in 50 is narrow, all have the same centre; `tells`: origins say which."""
    rng = np.random.default_rng(seed)
    narrow = rng.random(num) < 0.02
    points = rng.normal(size=(num, SIZE)) * np.where(narrow, 0.05, 1.0)[:, None]
    origin = np.where(narrow, 3, rng.integers(0, 3, num)) if tells else np.zeros(num, int)
    none = np.zeros(num, int)
    return RecordsAtTime(points, none, origin, np.full(num, -500.0), np.zeros(num))


def test_groups_are_joined_that_lose_least():
    # Origins 0 to 2 have the same law: with two Gaussians they share one.
    start = start_moments(0, records(1, True), gaussian_slots(1, 2), 3, 0)
    scales = np.sqrt(np.trace(start.covariances[:2], axis1=1, axis2=2) / SIZE)
    assert sorted(scales) == pytest.approx([0.3, 1.0], abs=0.1)  # drawn to all by 8 of 80 counts
    more = start_moments(0, records(1, True), gaussian_slots(1, 6), 3, 0)
    assert more.means.shape == (7, SIZE)  # four origins, two by distance, the one that stays
    assert np.linalg.eigvalsh(more.covariances).min() > 0.0


def test_origins_show_what_is_rare_and_in_the_middle():
    scores = {}
    for tells in (True, False):
        slots = gaussian_slots(1, 2)
        (fit,) = fit_times(0, [records(1, tells)], slots, 3)
        scores[tells] = mean_log_joint(fit, records(2, tells), slots)
    exact = 0.98 * np.log(0.98) + 0.02 * np.log(0.02) - 0.02 * SIZE * np.log(0.05)
    exact -= 0.5 * SIZE * (1.0 + np.log(2.0 * np.pi))
    assert abs(scores[True] - exact) < 0.1
    assert scores[False] < scores[True] - 0.1


def mirrored(seed, num=3000):
    """The noise is the state with either sign, which the origin tells, and something of its own."""
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(num) < 0.5, -1, 1)
    y = rng.normal(size=(num, 2))
    points = np.concatenate([y, side[:, None] * (y + 0.5 + 0.3 * rng.normal(size=(num, 2)))], 1)
    return RecordsAtTime(points, 0 * side, side, np.full(num, -500.0), np.zeros(num))


def test_pairs_learn_from_both_sides():
    slots = gaussian_slots(1, 2)
    (fit,) = fit_times(0, [mirrored(3)], slots, 2, mirrors=True)
    mirror = mirror_of(4, 2)
    assert fit.means[1] == pytest.approx(fit.means[0] * mirror, abs=1e-12)
    assert fit.covariances[1] == pytest.approx(fit.covariances[0] * np.outer(mirror, mirror))
    assert fit.weights[1] == pytest.approx(fit.weights[2])
    assert np.abs(fit.means[0, 2:]) == pytest.approx([0.5, 0.5], abs=0.1)
    exact = np.log(0.5) - 2.0 - 2.0 * np.log(2.0 * np.pi) - 2.0 * np.log(0.3)
    assert mean_log_joint(fit, mirrored(4), slots) == pytest.approx(exact, abs=0.15)
