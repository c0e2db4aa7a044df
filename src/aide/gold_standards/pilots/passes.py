"""Passes of pilots: again and again along the path of the last one, until it stops growing."""

from collections.abc import Callable
from functools import partial

import jax

from aide._core.types import Key
from aide.gold_standards.budget import Budget
from aide.gold_standards.pilots.pilot import Pilot, run_pilot
from aide.gold_standards.pilots.population import Path
from aide.gold_standards.pilots.schedule import make_recipe
from aide.gold_standards.pilots.straightening import find_structure
from aide.gold_standards.pilots.tuners import HmcTuner, Tuner

MOST_PASSES = 5
"""Passes of pilots along a path, in all."""
PILOT_TIME, CUT_TIME = 0.3, 0.45
"""Shares of the seconds of a budget after which no further pass begins, and after which pilots of
the first one take the rest of the path in one step."""
GROWTH = 1.2
"""Pilots walk again if their pass found the path this many times as long as the one before did."""
SLOW = 3.0
"""Autocorrelation time, in steps of the kernel, from which on one pass does not show the length of
a path: pilots of the first pass lag behind the temperatures there."""


def first_pass(
    key: Key,
    path: Path,
    tuner: Tuner,
    num_pilots: int,
    budget: Budget,
    report: Callable[[int, float], None],
    share: float,
) -> tuple[Pilot, Tuner]:
    """Pilots that walk the path once, or twice if it turns out that scales depend on coordinates.

    Where no step size suited all pilots for that reason, kernels move in other coordinates from
    then on: the tuner that comes back knows them. `share`: see `run_pilot`.
    """
    is_late = lambda: budget.is_late(CUT_TIME)
    walk = partial(run_pilot, path=path, num_pilots=num_pilots, share=share, is_late=is_late)
    pilot = walk(jax.random.fold_in(key, 0), tuner=tuner, report=partial(report, 0))
    may_bend = isinstance(tuner, HmcTuner) and tuner.structure is None and _needs_sizes(pilot)
    if not isinstance(tuner, HmcTuner) or not may_bend or budget.is_late(PILOT_TIME):
        return pilot, tuner
    structure = find_structure(pilot.population.flat)
    if structure is None:
        return pilot, tuner
    bent = HmcTuner(tuner.dense, structure)
    subkey = jax.random.fold_in(key, MOST_PASSES)
    again = walk(subkey, tuner=bent, report=partial(report, 1))
    if again.cut_at is not None:
        return pilot.after(again), tuner
    return again.after(pilot), bent


def further_passes(
    key: Key,
    path: Path,
    tuner: Tuner,
    pilot: Pilot,
    budget: Budget,
    report: Callable[[int, float], None],
) -> Pilot:
    """Pilots that walk the path again until its length is known, or the budget is spent.

    Where kernels mix slowly, pilots of a first pass are behind the temperatures all the time and
    see less change than there is; along a path with more temperatures they see more.
    """
    for number in range(1, MOST_PASSES):
        if max(stage.time for stage in pilot.stages) < SLOW:
            break
        if pilot.num_evaluations > budget.evaluations or budget.is_late(PILOT_TIME):
            break
        temperatures = make_recipe(pilot, tuner, fewest=len(pilot.stages)).temperatures
        subkey, hear = jax.random.fold_in(key, number), partial(report, number)
        num_pilots = pilot.population.num
        is_late = lambda: budget.is_late(CUT_TIME)
        again = run_pilot(
            subkey, path, tuner, num_pilots, hear, temperatures.tolist(), is_late=is_late
        )
        if again.cut_at is not None:
            return pilot.after(again)
        known = again.length < GROWTH * pilot.length
        pilot = again.after(pilot)
        if known:
            break
    return pilot


def _needs_sizes(pilot: Pilot) -> bool:
    """Whether steps of several sizes were needed somewhere."""
    return any(len(stage.settings) > 1 for stage in pilot.stages)
