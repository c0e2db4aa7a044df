"""Tempered SMC, tuned: pilots, a recipe, particles, and a rival from another start."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide.auditing.starts import Widened, can_be_widened, widen
from aide.gold_standards.choices import dimension_of, shape_of
from aide.gold_standards.passes import run_passes
from aide.gold_standards.path import Path
from aide.gold_standards.pilot import Pilot
from aide.gold_standards.schedule import Recipe, make_recipe
from aide.gold_standards.sizing import Sizing, choose_size
from aide.gold_standards.tuners import GivenKernel, Tuner
from aide.smc.smc import Smc

FEWEST_PILOTS, PILOTS_PER_DIMENSION, MOST_PILOTS = 1000, 60, 8000
WIDER = 2.0
"""How much wider the start of the rival is."""
PILOT_SHARE, SIZING_SHARE = 0.2, 0.3
"""Of the budget, for the pilots of either start, and to find the number of particles."""
LENGTHEN, MOST_LENGTHENED = 3, 3
"""How many times as many temperatures, and how often, where particles do not help."""


class Goal(NamedTuple):
    """What is asked for: nats of looseness, and evaluations that may be spent on it."""

    looseness: float
    most: float
    num_pilots: int | None = None


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
) -> Pilot:
    """Pilots from a start, as many as the dimension asks for."""
    num = goal.num_pilots
    if num is None and isinstance(tuner, GivenKernel):
        num = FEWEST_PILOTS
    elif num is None:
        wanted = PILOTS_PER_DIMENSION * dimension_of(shape_of(key, start))
        num = int(np.clip(wanted, FEWEST_PILOTS, MOST_PILOTS))
    most = PILOT_SHARE * goal.most
    return run_passes(key, Path(start, log_joint), tuner, num, most, report)


def make_annealed(
    key: Key,
    log_joint: LogDensity,
    start: Distribution,
    tuner: Tuner,
    goal: Goal,
    pilot: Pilot,
    fewest: int,
) -> Annealed:
    """The recipe that pilots found, and by trial runs the number of particles."""
    spent, most = float(pilot.num_evaluations), SIZING_SHARE * goal.most
    recipe, sizing = make_recipe(pilot, tuner, fewest=fewest), Sizing(1, 0.0)
    # The variance of the log evidence with one particle, as pilots see it, is about Λ²/T.
    guess = int(np.ceil(pilot.length**2 / len(recipe.temperatures) / goal.looseness))
    if recipe.settings.shape[1] > 1:  # steps of several sizes: each moves some particles only
        recipe = make_recipe(pilot, tuner, fewest=LENGTHEN * len(recipe.temperatures))
    for number in range(MOST_LENGTHENED + 1):

        def build(num: int, recipe: Recipe = recipe) -> Smc:
            return recipe._replace(num_particles=num).build(start, log_joint, tuner)

        left = pilot.num_evaluations + most - spent
        sizing = choose_size(key, build, guess, goal.looseness, recipe.cost(tuner), left)
        spent += sizing.num_evaluations
        if not sizing.is_rare or number == MOST_LENGTHENED:
            break
        # A few outputs that the path hardly reaches: more steps get there, more particles do not.
        recipe = make_recipe(pilot, tuner, fewest=LENGTHEN * len(recipe.temperatures))
    recipe = recipe._replace(num_particles=sizing.num_particles)
    algorithm = recipe.build(start, log_joint, tuner)
    return Annealed(start, recipe, pilot, algorithm, spent)


def make_rival(
    log_joint: LogDensity, one: Annealed, start: Distribution, tuner: Tuner, pilot: Pilot
) -> Annealed:
    """The same from another start, with the kernels found there.

    It has as many temperatures and particles, so that the programs are the same.
    """
    recipe = make_recipe(pilot, tuner, one.recipe)
    algorithm = recipe.build(start, log_joint, tuner, label="from a wider start")
    return Annealed(start, recipe, pilot, algorithm, pilot.num_evaluations)


def stretchable(key: Key, start: Distribution) -> Distribution:
    """The same start as one that can be made wider, if its draws are real."""
    return widen(key, start, 1.0) if can_be_widened(key, start) else start


def wider(start: Distribution) -> Distribution | None:
    """The start twice as wide; `None` for discrete states."""
    return replace(start, factor=WIDER) if isinstance(start, Widened) else None
