"""From a start to what covers the posterior: pilots, the modes they show, pilots about those."""

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
from aide.gold_standards.budget import Goal, TooLate
from aide.gold_standards.choices import dimension_of, shape_of
from aide.gold_standards.pilots.pilot import COARSE_SHARE, SHARE, Pilot, run_pilot
from aide.gold_standards.pilots.population import Path
from aide.gold_standards.pilots.schedule import CUT_TIME, PILOT_TIME, first_pass, further_passes
from aide.gold_standards.pilots.tuners import GivenKernel, HmcTuner, Tuner
from aide.gold_standards.starts.climbing import Mode
from aide.gold_standards.starts.regions import Region, missing_region
from aide.gold_standards.starts.searching import Search, hidden_modes
from aide.gold_standards.starts.tails import cover, cover_modes

FEWEST_PILOTS = 1000
"""Least number of pilots, unless the caller states a number."""
PILOTS_PER_DIMENSION = 60
"""Pilots for each coordinate of the state, between the least and the largest number."""
MOST_PILOTS = 4000
"""Largest number of pilots, unless the caller states a number."""
WIDER = 2.0
"""Factor by which the start of the rival is wider."""
PILOT_SHARE = 0.2
"""Share of the budget for the pilots of either start."""
WORTH_TAKING = 0.8
"""A start that covers what was found is taken if its path is shorter than this share of the old."""
KEY_COVERED = 1000
"""Index of the key of pilots from a start that covers what was found."""
KEY_SEARCHED = 1001
"""Index of the key of climbs that look for modes."""
SEARCH_SHARE = 0.05
"""Share of the budget for climbs that look for modes."""
COVER_TIME, COVERED_TIME = 0.5, 0.6
"""Shares of the seconds of a budget: after that no pilots set out from a start that covers what was
found; pilots that have set out are given up."""


class Explored(NamedTuple):
    """A start, what pilots that set out from it found, with kernels of a tuner.

    `modes` are those between which they are divided, none where that cannot be said; `doubts` are
    reasons not to trust the pilots, in sentences; `before` are the places of pilots from the start
    as it was given, where another one took its place.
    """

    start: Distribution
    pilot: Pilot
    tuner: Tuner
    modes: tuple[Mode, ...] = ()
    doubts: tuple[str, ...] = ()
    before: np.ndarray | None = None

    @property
    def can_be_covered(self) -> bool:
        """Real-valued states alone can, and a path of one step needs nothing better."""
        return isinstance(self.start, Widened) and len(self.pilot.stages) > 1


def explore(
    key: Key, log_joint: LogDensity, start: Distribution, tuner: Tuner, goal: Goal, report: Any
) -> Explored:
    """Pilots from a start, as many as the dimension asks for, and modes that they and climbs show.

    One pass does where another start may follow that covers what was found.
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
    if budget.is_late(PILOT_TIME) or not isinstance(tuner, HmcTuner):
        return found
    late = lambda: budget.is_late(PILOT_TIME)
    search, modes = Search(jax.random.fold_in(key, KEY_SEARCHED), path, pilot, late), ()
    with suppress(TooLate), budget.until(CUT_TIME):
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
    """Pilots from a start that covers what was found, taken if their path is shorter.

    The start is one about each of several modes, or, where there are none or its path is no
    shorter, one about the pilots. It is not taken where its pilots miss a region that the first
    ones held; it is taken in any case where the first ones hardly reached a mode. Where it is not
    taken, pilots walk on along the first path until its length is known.
    """
    start, pilot, tuner, doubts = found.start, found.pilot, found.tuner, found.doubts
    if not found.can_be_covered:
        return found
    # One pass, with one step size if that did in the end: what is slow here are particles in far
    # tails, which hardly count.
    plain, num, spent = tuner, pilot.population.num, pilot.num_evaluations
    losses = pilot.losses
    if isinstance(tuner, HmcTuner) and len(pilot.stages[-1].settings) == 1:
        plain = HmcTuner(tuner.dense, tuner.structure, may_split=False)
    subkey = jax.random.fold_in(key, KEY_COVERED)
    hidden = hidden_modes(modes, pilot.population.flat)
    # Pilots say more than mean and spread about what is outside of modes, unless they missed one.
    about_modes = len(modes) > 1 and (bool(hidden) or not any(mode.is_rest for mode in modes))
    for start_near in ([cover_modes(start, modes)] if about_modes else []) + [cover(start, pilot)]:
        if goal.budget.is_late(COVER_TIME):
            break
        longest = np.inf if hidden else WORTH_TAKING * pilot.length
        report_pass = partial(report, 1)
        path = Path(start_near, log_joint, names=Aside(goal.names))
        is_late = lambda: goal.budget.is_late(COVERED_TIME)
        again = run_pilot(subkey, path, plain, num, report_pass, longest=longest, is_late=is_late)
        if again.cut_at is not None:
            break
        spent, losses = spent + again.num_evaluations, losses.joined(again.losses)
        if again.length >= longest:
            continue
        lost = missing_region(pilot.population.flat, again.population.flat)
        if lost is None or hidden:
            # Pilots that hardly reached a mode are no standard for others.
            before = None if hidden else pilot.population.flat
            found = Explored(start_near, again, tuner, before=before)
            break
        doubts = (_loss_words(lost),)
    last = found.pilot
    if found.start is start:
        path = Path(start, log_joint, names=Aside(goal.names))
        budget = goal.budget.part(PILOT_SHARE * goal.budget.evaluations)
        first = last._replace(num_evaluations=spent, losses=losses)
        last = further_passes(key, path, tuner, first, budget, report)
        spent, losses = last.num_evaluations, last.losses
    doubts = (*doubts, *_hidden_words(modes, last.population.flat))
    pilot = last._replace(num_evaluations=spent, losses=losses)
    return found._replace(pilot=pilot, modes=modes, doubts=doubts)


def check_arrived(found: Explored, goal: Goal) -> None:
    """Raise `TooLate` if time was up before pilots were at the posterior."""
    if found.pilot.cut_at is not None:
        raise TooLate(f"time was up at temperature {found.pilot.cut_at:.2g}.")


def compare_pilots(explored: Sequence[Explored]) -> tuple[str, ...]:
    """The first doubt about the pilots: those there are, or that some miss a region.

    Those along the paths that were taken, from either start, against those from the starts as they
    were given; and the former among each other.
    """
    after = [one.pilot.population.flat for one in explored]
    before = [one.before for one in explored if one.before is not None]
    pairs = [(np.vstack(before), np.vstack(after))] if before else []
    pairs += [(one, other) for one in after for other in after if one is not other]
    lost = [missing_region(*pair) for pair in pairs]
    doubts = [doubt for one in explored for doubt in one.doubts]
    cuts = [one.pilot.cut_at for one in explored if one.pilot.cut_at is not None]
    doubts += [_cut_words(cut) for cut in cuts]
    return (*doubts, *(_loss_words(one) for one in lost if one is not None))[:1]


def _loss_words(lost: Region) -> str:
    return (
        f"pilots along two paths to the posterior ended differently ({lost.share:.1%} along one "
        f"and {lost.other:.1%} along the other have {lost.words}): it may miss that region; pass a "
        "start that is nearer to the posterior, or other coordinates"
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
        f"pilots hardly reached a narrow mode that optimisers found (at {place}): they give it "
        "less than a fifth of its share of the mass; pass a start that knows it",
    )


def stretchable(key: Key, start: Distribution) -> Distribution:
    """The same start as one that can be made wider, if its draws are real."""
    return widen(key, start, 1.0) if can_be_widened(key, start) else start


def wider(start: Distribution) -> Distribution | None:
    """The start twice as wide; `None` for discrete states."""
    return replace(start, factor=WIDER) if isinstance(start, Widened) else None
