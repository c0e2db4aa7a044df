"""Passes of pilots: again and again along the path of the last one, until it stops growing."""

from collections.abc import Callable
from functools import partial

import jax

from aide._core.types import Key
from aide.gold_standards.budget import Budget
from aide.gold_standards.pilots.path import Path
from aide.gold_standards.pilots.pilot import Pilot, run_pilot
from aide.gold_standards.pilots.schedule import make_recipe
from aide.gold_standards.pilots.straightening import find_structure
from aide.gold_standards.pilots.tuners import HmcTuner, Tuner

MOST_PASSES = 5
PILOT_TIME = 0.3
"""Of the seconds of a budget; after that no further pass begins."""
GROWTH = 1.2
"""A path that a second pass finds longer than that needs a third."""
SLOW = 3.0
"""A path on which no kernel is slower than that is known after one pass."""


def run_passes(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    budget: Budget,
    report: Callable[[int, float], None],
) -> tuple[Pilot, Tuner]:
    """Pilots until the length of the path is known, or the budget is spent.

    Where kernels mix slowly, a first pass is behind the temperatures all the time and sees less
    change than there is; along a path with more temperatures it sees more. Where no step size
    suited all pilots since scales depend on coordinates, kernels move in others from then on.

    Returns:
        What the last pass found, and the tuner it had.
    """
    pilot = run_pilot(jax.random.fold_in(key, 0), path, tuner, num_pilots, partial(report, 0))
    spent, losses = pilot.num_evaluations, pilot.losses
    bent = isinstance(tuner, HmcTuner) and tuner.structure is None and _needs_sizes(pilot)
    if isinstance(tuner, HmcTuner) and bent and not budget.is_late(PILOT_TIME):
        structure = find_structure(pilot.population.flat)
        if structure is not None:
            tuner = HmcTuner(tuner.dense, structure)
            subkey = jax.random.fold_in(key, MOST_PASSES)
            pilot = run_pilot(subkey, path, tuner, num_pilots, partial(report, 1))
            spent, losses = spent + pilot.num_evaluations, losses.joined(pilot.losses)
    for number in range(1, MOST_PASSES):
        if max(stage.time for stage in pilot.stages) < SLOW or spent > budget.evaluations:
            break
        if budget.is_late(PILOT_TIME):
            break
        temperatures = make_recipe(pilot, tuner, fewest=len(pilot.stages)).temperatures
        subkey = jax.random.fold_in(key, number)
        hear = partial(report, number)
        again = run_pilot(subkey, path, tuner, num_pilots, hear, temperatures.tolist())
        spent, losses = spent + again.num_evaluations, losses.joined(again.losses)
        known = again.length < GROWTH * pilot.length
        pilot = again
        if known:
            break
    return pilot._replace(num_evaluations=spent, losses=losses), tuner


def _needs_sizes(pilot: Pilot) -> bool:
    """Whether steps of several sizes were needed somewhere."""
    return any(len(stage.settings) > 1 for stage in pilot.stages)
