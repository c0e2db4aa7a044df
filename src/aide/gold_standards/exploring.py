"""Exploring: pilots from a start, the modes they show, and pilots from a start at these modes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import Aside
from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide.auditing.audit import Widened, can_be_widened, widen
from aide.gold_standards.budget import (
    COVERING_GIVEN_UP,
    LAST_COVERING,
    LAST_PASS,
    PILOTS_CUT,
    Goal,
    TooLate,
)
from aide.gold_standards.choices import dimension_of, shape_of
from aide.gold_standards.pilots.pilot import COARSE_SHARE, SHARE, PilotedPath, walk_pilots
from aide.gold_standards.pilots.population import Path
from aide.gold_standards.pilots.schedule import first_pass, further_passes
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, Tuner
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.regions import Region, missing_region
from aide.gold_standards.starts.searching import Search, hidden_modes
from aide.gold_standards.starts.tails import cover, cover_modes

FEWEST_PILOTS = 1000
"""Least number of pilots, unless the caller states a number: a choice."""
PILOTS_PER_DIMENSION = 60
"""Pilots per dimension, within the limits above and below: a choice."""
MOST_PILOTS = 4000
"""Largest number of pilots, unless the caller states a number: a choice."""
WIDER = 2.0
"""Factor by which the start of the rival is wider than the start: a choice."""
PILOT_SHARE = 0.2
"""Share of the budget's evaluations for the pilots of each of the two starts: a choice."""
WORTH_TAKING = 0.8
"""A covering start is taken if its path is shorter than this multiple of the first: a choice."""
KEY_COVERED = 1000
"""Index that derives the key of pilots from a covering start."""
KEY_SEARCHED = 1001
"""Index that derives the key of the search for modes."""
SEARCH_SHARE = 0.05
"""Share of the budget's evaluations for climbs that look for modes: a choice."""


class Explored(NamedTuple):
    """A start, and what the pilots that left from this start found with the kernels of a tuner.

    `modes` are the modes between which the pilots are divided, empty if these are unknown;
    `doubts` are sentences with reasons not to trust the pilots; `places_before` are the places of
    the pilots from the start as the caller gave it, where a covering start has replaced that start.
    """

    start: Distribution
    pilot: PilotedPath
    tuner: Tuner
    modes: tuple[Mode, ...] = ()
    doubts: tuple[str, ...] = ()
    places_before: np.ndarray | None = None

    @property
    def can_be_covered(self) -> bool:
        """Whether a covering start could help: states are real, the path has more than one step."""
        return isinstance(self.start, Widened) and len(self.pilot.stages) > 1


def explore(
    key: Key, log_joint: LogDensity, start: Distribution, tuner: Tuner, goal: Goal, report: Any
) -> Explored:
    """Run pilots from a start, in a number by the dimension, and find modes from their places.

    Where a start that covers the modes may follow, pilots walk the path only once.
    """
    num = goal.num_pilots
    if num is None and isinstance(tuner, GivenKernel):
        num = FEWEST_PILOTS
    elif num is None:
        wanted = PILOTS_PER_DIMENSION * dimension_of(shape_of(key, start))
        num = int(np.clip(wanted, FEWEST_PILOTS, MOST_PILOTS))
    budget = goal.budget.part(PILOT_SHARE * goal.budget.evaluations)
    path = Path(start, log_joint, names=Aside(goal.names))
    share = COARSE_SHARE if isinstance(start, Widened) else SHARE
    pilot, tuner = first_pass(key, path, tuner, num, budget, report, share)
    found = Explored(start, pilot, tuner)
    if not found.can_be_covered:
        pilot = further_passes(key, path, tuner, pilot, budget, report)
        return found._replace(pilot=pilot)
    if budget.is_late(LAST_PASS) or not isinstance(tuner, HmcTuner):
        return found
    late = lambda: budget.is_late(LAST_PASS)
    search, modes = Search(jax.random.fold_in(key, KEY_SEARCHED), path, pilot, late), ()
    with suppress(TooLate), budget.until(PILOTS_CUT):
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
    """Run pilots from a start that covers what was found; take them if their path is shorter.

    Two covering starts are tried: with several modes, one that has a component about each mode;
    then, unless that start was taken, one with a component about all pilots. A start is refused if
    its pilots miss a region that the first pilots held; it is always taken if the first pilots
    hardly reached a mode. After a refusal pilots walk the first path until its length is known.
    """
    start, pilot, tuner, doubts = found.start, found.pilot, found.tuner, found.doubts
    if not found.can_be_covered:
        return found
    # One pass, with one step size if one was enough at the end: slow parts here are particles in
    # far tails, which carry hardly any weight.
    plain, num, spent = tuner, pilot.population.num, pilot.num_evaluations
    losses = pilot.losses
    if isinstance(tuner, HmcTuner) and len(pilot.stages[-1].settings) == 1:
        plain = HmcTuner(tuner.dense, tuner.structure, may_split=False)
    subkey = jax.random.fold_in(key, KEY_COVERED)
    hidden = hidden_modes(modes, pilot.population.flat)
    # A component for everything outside of the modes (`is_rest`) is the pilots' mean and spread,
    # which the start about all pilots states better. A start about modes is tried only without such
    # a component, or where pilots missed a mode.
    about_modes = len(modes) > 1 and (bool(hidden) or not any(mode.is_rest for mode in modes))
    for start_near in ([cover_modes(start, modes)] if about_modes else []) + [cover(start, pilot)]:
        if goal.budget.is_late(LAST_COVERING):
            break
        longest = np.inf if hidden else WORTH_TAKING * pilot.length
        report_pass = partial(report, 1)
        path = Path(start_near, log_joint, names=Aside(goal.names))
        is_late = lambda: goal.budget.is_late(COVERING_GIVEN_UP)
        again = walk_pilots(subkey, path, plain, num, report_pass, longest=longest, is_late=is_late)
        if again.cut_at is not None:
            break
        spent, losses = spent + again.num_evaluations, losses.joined(again.losses)
        if again.length >= longest:
            continue
        missing = missing_region(pilot.population.flat, again.population.flat)
        if missing is None or hidden:
            # Pilots that hardly reached a mode cannot serve as a standard for others.
            places_before = None if hidden else pilot.population.flat
            found = Explored(start_near, again, tuner, places_before=places_before)
            break
        doubts = (_region_words(missing),)
    last = found.pilot
    if found.start is start:  # no covering start was taken
        path = Path(start, log_joint, names=Aside(goal.names))
        budget = goal.budget.part(PILOT_SHARE * goal.budget.evaluations)
        first = last._replace(num_evaluations=spent, losses=losses)
        last = further_passes(key, path, tuner, first, budget, report)
        spent, losses = last.num_evaluations, last.losses
    doubts = (*doubts, *_hidden_words(modes, last.population.flat))
    pilot = last._replace(num_evaluations=spent, losses=losses)
    return found._replace(pilot=pilot, modes=modes, doubts=doubts)


def check_arrived(found: Explored, goal: Goal) -> None:
    """Raise `TooLate` if the time was up before the pilots reached the posterior."""
    if found.pilot.cut_at is not None:
        raise TooLate(f"time was up at temperature {found.pilot.cut_at:.2g}.")


def compare_pilots(explored: Sequence[Explored]) -> tuple[str, ...]:
    """The first reason to doubt the pilots, or none; one reason is that some pilots miss a region.

    Pilots from the starts that were taken, both together, are compared with pilots from the starts
    as they were given; then pilots from the two starts that were taken with each other.
    """
    after = [one.pilot.population.flat for one in explored]
    before = [one.places_before for one in explored if one.places_before is not None]
    pairs = [(np.vstack(before), np.vstack(after))] if before else []
    pairs += [(one, other) for one in after for other in after if one is not other]
    missing = [missing_region(*pair) for pair in pairs]
    doubts = [doubt for one in explored for doubt in one.doubts]
    cuts = [one.pilot.cut_at for one in explored if one.pilot.cut_at is not None]
    doubts += [_cut_words(cut) for cut in cuts]
    return (*doubts, *(_region_words(one) for one in missing if one is not None))[:1]


def _region_words(missing: Region) -> str:
    return (
        f"pilots along two paths to the posterior ended differently ({missing.share:.1%} along one "
        f"and {missing.other:.1%} along the other have {missing.words}): the gold standard may "
        "miss that region; pass a start that is nearer to the posterior, or other coordinates"
    )


def _cut_words(temperature: float) -> str:
    return (
        f"time was up when pilots had come to temperature {temperature:.2g}, so that the rest of "
        "the path is one step: raise max_seconds, or pass a start that is nearer to the posterior"
    )


def _hidden_words(modes: tuple[Mode, ...], flat: np.ndarray) -> tuple[str, ...]:
    hidden = hidden_modes(modes, flat)
    if not hidden:
        return ()
    place = np.array2string(hidden[0].mean[:4], precision=3)
    return (
        f"pilots hardly reached a narrow mode that optimisers found (at {place}): less than a "
        "fifth of the mode's share of the mass; pass a start that covers this mode",
    )


def stretchable(key: Key, start: Distribution) -> Distribution:
    """The start as a distribution that can be made wider, if its draws are real."""
    return widen(key, start, 1.0) if can_be_widened(key, start) else start


def wider(start: Distribution) -> Distribution | None:
    """The start twice as wide; `None` for discrete states."""
    return replace(start, factor=WIDER) if isinstance(start, Widened) else None
