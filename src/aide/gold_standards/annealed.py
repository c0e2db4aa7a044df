"""Tempered SMC, tuned: a recipe, particles, and a rival from another start."""

from typing import NamedTuple

import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide._core.versions import budget_version
from aide.gold_standards.budget import Goal
from aide.gold_standards.exploring import Explored
from aide.gold_standards.pilots.pilot import Pilot
from aide.gold_standards.pilots.schedule import Recipe, make_recipe
from aide.gold_standards.pilots.tuners import HmcTuner, Tuner
from aide.gold_standards.sizing import Sizing, choose_size
from aide.smc.smc import Smc

SIZING_SHARE = 0.3
"""Of the budget, to find the number of particles."""
SIZING_TIME = 0.6
"""Of the seconds of a budget; after that no longer path is tried."""
LENGTHEN = 3
"""Factor by which the number of temperatures grows where more particles do not help."""
MOST_LENGTHENED = 3
"""Largest number of times that the number of temperatures grows."""


class Annealed(NamedTuple):
    """A tuned sampler: its start, its numbers, the pilots behind them, and what it cost.

    One that was read from a file has no pilots. `quick`: see `Sizing`.
    """

    start: Distribution
    recipe: Recipe
    pilot: Pilot | None
    algorithm: Smc
    num_evaluations: float
    quick: bool = True


def make_annealed(
    key: Key,
    log_joint: LogDensity,
    explored: Explored,
    goal: Goal,
    fewest: int,
) -> Annealed:
    """The recipe that pilots found, and by trial runs the number of particles."""
    start, pilot, tuner = explored.start, explored.pilot, explored.tuner
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
    return Annealed(start, recipe, pilot, algorithm, spent, sizing.quick)


def half_of(log_joint: LogDensity, one: Annealed, tuner: Tuner) -> InferenceAlgorithm | None:
    """The same at half the budget: half of its temperatures, or of its particles.

    Temperatures where kernels can be left out, which needs no other program.
    """
    if not isinstance(tuner, HmcTuner):
        return budget_version(one.algorithm, 0.5)
    return one.recipe.halved().build(one.start, log_joint, tuner, label="half the temperatures")


def make_rival(log_joint: LogDensity, one: Annealed, explored: Explored) -> Annealed:
    """The same from another start, with the kernels found there.

    It has as many temperatures and particles, so that the programs are the same.
    """
    start, pilot, tuner = explored.start, explored.pilot, explored.tuner
    recipe = make_recipe(pilot, tuner, one.recipe)
    algorithm = recipe.build(start, log_joint, tuner, label="from a wider start")
    return Annealed(start, recipe, pilot, algorithm, pilot.num_evaluations)
