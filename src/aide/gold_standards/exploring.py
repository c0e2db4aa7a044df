"""From a start to what covers the posterior: pilots, the modes they show, pilots about those."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import Aside
from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide.auditing.audit import Widened, can_be_widened, widen
from aide.gold_standards.budget import Goal
from aide.gold_standards.choices import dimension_of, shape_of
from aide.gold_standards.pilots.passes import PILOT_TIME, run_passes
from aide.gold_standards.pilots.path import Path
from aide.gold_standards.pilots.pilot import Pilot, run_pilot
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, Tuner
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.covering import cover, cover_modes
from aide.gold_standards.starts.searching import Search

FEWEST_PILOTS, PILOTS_PER_DIMENSION, MOST_PILOTS = 1000, 60, 4000
WIDER = 2.0
"""How much wider the start of the rival is."""
PILOT_SHARE = 0.2
"""Of the budget, for the pilots of either start."""
SHORTER, COVERED, SEARCHED = 0.8, 1000, 1001
"""A path that is not shorter than that is not worth another start; keys of pilots and runs."""
SEARCH_SHARE = 0.05
"""Of the budget, for climbs that look for modes."""


class Explored(NamedTuple):
    """A start, what pilots that set out from it found, with kernels of a tuner.

    `modes` are those between which they are divided, none where that cannot be said.
    """

    start: Distribution
    pilot: Pilot
    tuner: Tuner
    modes: tuple[Mode, ...] = ()

    @property
    def can_be_covered(self) -> bool:
        """Real-valued states alone can, and a path of one step needs nothing better."""
        return isinstance(self.start, Widened) and len(self.pilot.stages) > 1


def explore(
    key: Key, log_joint: LogDensity, start: Distribution, tuner: Tuner, goal: Goal, report: Any
) -> Explored:
    """Pilots from a start, as many as the dimension asks for, and modes that they and runs show."""
    num = goal.num_pilots
    if num is None and isinstance(tuner, GivenKernel):
        num = FEWEST_PILOTS
    elif num is None:
        wanted = PILOTS_PER_DIMENSION * dimension_of(shape_of(key, start))
        num = int(np.clip(wanted, FEWEST_PILOTS, MOST_PILOTS))
    budget = goal.budget.part(PILOT_SHARE * goal.budget.evaluations)
    path = Path(start, log_joint, names=Aside(goal.names))
    pilot, tuner = run_passes(key, path, tuner, num, budget, report)
    found = Explored(start, pilot, tuner)
    if not found.can_be_covered or budget.is_late(PILOT_TIME) or not isinstance(tuner, HmcTuner):
        return found
    search = Search(jax.random.fold_in(key, SEARCHED), path, pilot)
    modes = search.find(SEARCH_SHARE * goal.budget.evaluations)
    spent = pilot.num_evaluations + search.num_evaluations
    return Explored(start, pilot._replace(num_evaluations=spent), tuner, modes)


def cover_explored(
    key: Key,
    log_joint: LogDensity,
    found: Explored,
    modes: tuple[Mode, ...],
    goal: Goal,
    report: Any,
) -> Explored:
    """Pilots from a start that covers what was found; the shorter of the two paths is taken.

    The start is one about each of several modes, or, where there are none or its path is no
    shorter, one about the pilots.
    """
    start, pilot, tuner, _ = found
    if not found.can_be_covered:
        return found
    # One pass, with one step size if that did in the end: what is slow here are particles in far
    # tails, which hardly count.
    plain, num, spent = tuner, pilot.population.num, pilot.num_evaluations
    losses = pilot.losses
    if isinstance(tuner, HmcTuner) and len(pilot.stages[-1].settings) == 1:
        plain = HmcTuner(tuner.dense, tuner.structure, may_split=False)
    subkey = jax.random.fold_in(key, COVERED)
    for near in ([cover_modes(start, modes)] if len(modes) > 1 else []) + [cover(start, pilot)]:
        if goal.budget.is_late(PILOT_TIME):
            break
        longest, hear = SHORTER * pilot.length, partial(report, 1)
        path = Path(near, log_joint, names=Aside(goal.names))
        again = run_pilot(subkey, path, plain, num, hear, longest=longest)
        spent, losses = spent + again.num_evaluations, losses.joined(again.losses)
        if again.length < longest:
            found = Explored(near, again, tuner)
            break
    return found._replace(pilot=found.pilot._replace(num_evaluations=spent, losses=losses))


def stretchable(key: Key, start: Distribution) -> Distribution:
    """The same start as one that can be made wider, if its draws are real."""
    return widen(key, start, 1.0) if can_be_widened(key, start) else start


def wider(start: Distribution) -> Distribution | None:
    """The start twice as wide; `None` for discrete states."""
    return replace(start, factor=WIDER) if isinstance(start, Widened) else None
