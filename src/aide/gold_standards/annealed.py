"""Tempered SMC, tuned: pilots, a recipe, particles, and a rival from another start."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide.auditing.starts import Widened, can_be_widened, widen
from aide.gold_standards.budget import Budget
from aide.gold_standards.choices import dimension_of, shape_of
from aide.gold_standards.covering import cover
from aide.gold_standards.passes import PILOT_TIME, run_passes
from aide.gold_standards.path import Path
from aide.gold_standards.pilot import Pilot, run_pilot
from aide.gold_standards.schedule import Recipe, make_recipe
from aide.gold_standards.sizing import Sizing, choose_size
from aide.gold_standards.tuners import GivenKernel, HmcTuner, Tuner
from aide.smc.smc import Smc

FEWEST_PILOTS, PILOTS_PER_DIMENSION, MOST_PILOTS = 1000, 60, 4000
WIDER = 2.0
"""How much wider the start of the rival is."""
PILOT_SHARE, SIZING_SHARE = 0.2, 0.3
"""Of the budget, for the pilots of either start, and to find the number of particles."""
SHORTER, COVERED = 0.8, 1000
"""A path that is not shorter than that is not worth another start; the key of the pilots there."""
SIZING_TIME = 0.6
"""Of the seconds of a budget; after that no longer path is tried."""
LENGTHEN, MOST_LENGTHENED = 3, 3
"""How many times as many temperatures, and how often, where particles do not help."""


class Goal(NamedTuple):
    """What is asked for: nats of looseness, and what may be spent on it."""

    looseness: float
    budget: Budget
    num_pilots: int | None = None


class Explored(NamedTuple):
    """A start, and what pilots that set out from it found, with kernels of a tuner."""

    start: Distribution
    pilot: Pilot
    tuner: Tuner


class Annealed(NamedTuple):
    """A tuned sampler: its start, its numbers, the pilots behind them, and what it cost.

    One that was read from a file has no pilots.
    """

    start: Distribution
    recipe: Recipe
    pilot: Pilot | None
    algorithm: Smc
    num_evaluations: float


def run_pilots(
    key: Key, log_joint: LogDensity, start: Distribution, tuner: Tuner, goal: Goal, report: Any
) -> Explored:
    """Pilots from a start, as many as the dimension asks for; then from one that covers them.

    The shorter path is taken. Real-valued states alone can be covered.
    """
    num = goal.num_pilots
    if num is None and isinstance(tuner, GivenKernel):
        num = FEWEST_PILOTS
    elif num is None:
        wanted = PILOTS_PER_DIMENSION * dimension_of(shape_of(key, start))
        num = int(np.clip(wanted, FEWEST_PILOTS, MOST_PILOTS))
    budget = goal.budget.part(PILOT_SHARE * goal.budget.evaluations)
    pilot, tuner = run_passes(key, Path(start, log_joint), tuner, num, budget, report)
    found = Explored(start, pilot, tuner)
    done = len(pilot.stages) == 1 or budget.is_late(PILOT_TIME)
    if done or not isinstance(start, Widened):
        return found
    near = cover(start, pilot)
    subkey = jax.random.fold_in(key, COVERED)
    # One pass, with one step size if that did in the end: what is slow here are particles in far
    # tails, which hardly count.
    plain = tuner
    if isinstance(tuner, HmcTuner) and len(pilot.stages[-1].settings) == 1:
        plain = HmcTuner(tuner.dense, tuner.structure, may_split=False)
    again = run_pilot(subkey, Path(near, log_joint), plain, num, partial(report, 1))
    spent = pilot.num_evaluations + again.num_evaluations
    better = Explored(near, again, tuner) if again.length < SHORTER * pilot.length else found
    return better._replace(pilot=better.pilot._replace(num_evaluations=spent))


def make_annealed(
    key: Key,
    log_joint: LogDensity,
    explored: Explored,
    goal: Goal,
    fewest: int,
) -> Annealed:
    """The recipe that pilots found, and by trial runs the number of particles."""
    start, pilot, tuner = explored
    spent, most = float(pilot.num_evaluations), SIZING_SHARE * goal.budget.evaluations
    recipe, sizing = make_recipe(pilot, tuner, fewest=fewest), Sizing(1, 0.0)
    # The variance of the log evidence with one particle, as pilots see it, is about Λ²/T.
    guess = int(np.ceil(pilot.length**2 / len(recipe.temperatures) / goal.looseness))
    for number in range(MOST_LENGTHENED + 1):

        def build(num: int, recipe: Recipe = recipe) -> Smc:
            return recipe._replace(num_particles=num).build(start, log_joint, tuner)

        left = goal.budget.part(pilot.num_evaluations + most - spent)
        sizing = choose_size(key, build, guess, goal.looseness, recipe.cost(tuner), left)
        spent += sizing.num_evaluations
        if not sizing.is_rare or number == MOST_LENGTHENED or left.is_late(SIZING_TIME):
            break
        # A few outputs that the path hardly reaches: more steps get there, more particles do not.
        recipe = make_recipe(pilot, tuner, fewest=LENGTHEN * len(recipe.temperatures))
    recipe = recipe._replace(num_particles=sizing.num_particles)
    algorithm = recipe.build(start, log_joint, tuner)
    return Annealed(start, recipe, pilot, algorithm, spent)


def make_rival(log_joint: LogDensity, one: Annealed, explored: Explored) -> Annealed:
    """The same from another start, with the kernels found there.

    It has as many temperatures and particles, so that the programs are the same.
    """
    start, pilot, tuner = explored
    recipe = make_recipe(pilot, tuner, one.recipe)
    algorithm = recipe.build(start, log_joint, tuner, label="from a wider start")
    return Annealed(start, recipe, pilot, algorithm, pilot.num_evaluations)


def stretchable(key: Key, start: Distribution) -> Distribution:
    """The same start as one that can be made wider, if its draws are real."""
    return widen(key, start, 1.0) if can_be_widened(key, start) else start


def wider(start: Distribution) -> Distribution | None:
    """The start twice as wide; `None` for discrete states."""
    return replace(start, factor=WIDER) if isinstance(start, Widened) else None
