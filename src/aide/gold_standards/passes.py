"""Passes of pilots: again and again along the path of the last one, until it stops growing."""

from collections.abc import Callable
from functools import partial

import jax

from aide._core.types import Key
from aide.gold_standards.path import Path
from aide.gold_standards.pilot import Pilot, run_pilot
from aide.gold_standards.schedule import make_recipe
from aide.gold_standards.tuners import Tuner

MOST_PASSES = 5
GROWTH = 1.2
"""A path that a second pass finds longer than that needs a third."""
SLOW = 3.0
"""A path on which no kernel is slower than that is known after one pass."""


def run_passes(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    most: float,
    report: Callable[[int, float], None],
) -> Pilot:
    """Pilots until the length of the path is known, or so many evaluations are spent.

    Where kernels mix slowly, a first pass is behind the temperatures all the time and sees less
    change than there is; along a path with more temperatures it sees more.
    """
    first = jax.random.fold_in(key, 0)
    pilot = run_pilot(first, path, tuner, num_pilots, partial(report, 0))
    spent = pilot.num_evaluations
    for number in range(1, MOST_PASSES):
        if max(stage.time for stage in pilot.stages) < SLOW or spent > most:
            break
        temperatures = make_recipe(pilot, tuner, fewest=len(pilot.stages)).temperatures
        subkey = jax.random.fold_in(key, number)
        hear = partial(report, number)
        again = run_pilot(subkey, path, tuner, num_pilots, hear, temperatures.tolist())
        spent += again.num_evaluations
        known = again.length < GROWTH * pilot.length
        pilot = again
        if known:
            break
    return pilot._replace(num_evaluations=spent)
