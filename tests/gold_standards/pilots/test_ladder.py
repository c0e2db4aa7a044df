"""Smaller steps follow only where, and only as small as, particles need them."""

import numpy as np
import pytest

from aide.gold_standards.pilots.rungs import NUM_RUNGS
from aide.gold_standards.pilots.tuners import ladder, num_needed


def acceptance(stuck):
    """Of 1,000 particles, 4 steps and 3 sizes; `stuck` never move with the first so many sizes."""
    found = np.ones((1000, 4, 3))
    for size, num in enumerate(stuck):
        found[:num, :, size] = 0.0
    return found


@pytest.mark.parametrize(
    ("stuck", "needed"),
    [((0, 0, 0), 1), ((2, 0, 0), 1), ((30, 0, 0), 2), ((200, 100, 0), 3), ((200, 200, 200), 4)],
)
def test_as_many_sizes_as_leave_few_behind(stuck, needed):
    assert num_needed(acceptance(stuck)) == needed


def test_particles_that_chance_leaves_behind_need_none():
    rng = np.random.default_rng(0)
    assert num_needed((rng.random((1000, 4, 1)) < 0.3).astype(float)) == 1
    assert num_needed(np.repeat(rng.random((1000, 1, 1)) < 0.3, 4, axis=1).astype(float)) > 1


def test_a_ladder_begins_with_the_step_itself():
    steps = ladder(np.array([0.5, 3.0]))
    assert steps.shape == (NUM_RUNGS, 2)
    assert steps[0].tolist() == [0.5, 3.0]
    assert np.all(np.diff(steps[:, 0]) < 0)
