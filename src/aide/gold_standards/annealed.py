"""Tempered SMC, tuned: a recipe, a number of particles, and a rival from another start."""

from typing import NamedTuple

import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.distribution import Distribution
from aide._core.types import Key, LogDensity
from aide._core.versions import budget_version
from aide.gold_standards.budget import LAST_LENGTHENING, Goal
from aide.gold_standards.exploring import Explored
from aide.gold_standards.pilots.pilot import PilotedPath
from aide.gold_standards.pilots.schedule import Recipe, make_recipe
from aide.gold_standards.pilots.tuners import HmcTuner, Tuner
from aide.gold_standards.sizing import Sizing, choose_size
from aide.smc.smc import Smc

SIZING_SHARE = 0.3
"""Share of the budget's evaluations for the search for the number of particles: a choice."""
LENGTHEN = 3
"""Factor by which the number of temperatures grows where more particles do not help: a choice."""
MOST_LENGTHENED = 3
"""Largest number of times that a path is lengthened: then it has 27 times the temperatures."""


class Annealed(NamedTuple):
    """A tuned sampler: its start, its numbers, the pilots that found them, and its cost.

    A sampler that was read from a file has no pilots. `quick`: see `Sizing`.
    """

    start: Distribution
    recipe: Recipe
    pilot: PilotedPath | None
    algorithm: Smc
    num_evaluations: float
    quick: bool = True


def make_annealed(
    key: Key,
    log_joint: LogDensity,
    explored: Explored,
    goal: Goal,
    fewest_temperatures: int,
) -> Annealed:
    """Tune tempered SMC: the recipe comes from pilots, the number of particles from trial runs."""
    start, pilot, tuner = explored.start, explored.pilot, explored.tuner
    spent, most = float(pilot.num_evaluations), SIZING_SHARE * goal.budget.evaluations
    recipe, sizing = make_recipe(pilot, tuner, fewest=fewest_temperatures), Sizing(1, 0.0)
    # With one particle, pilots estimate the variance of the log evidence as about Λ²/T.
    guess = int(np.ceil(pilot.length**2 / len(recipe.temperatures) / goal.looseness))
    for number in range(MOST_LENGTHENED + 1):

        def build(num: int, recipe: Recipe = recipe) -> Smc:
            return recipe._replace(num_particles=num).build(start, log_joint, tuner)

        left = goal.budget.part(pilot.num_evaluations + most - spent)
        sizing = choose_size(key, build, guess, goal.looseness, recipe.cost(tuner), left)
        spent += sizing.num_evaluations
        if not sizing.is_rare or number == MOST_LENGTHENED or left.is_late(LAST_LENGTHENING):
            break
        # Looseness comes from a few outputs that the path hardly reaches: more steps reach these
        # outputs, more particles do not.
        recipe = make_recipe(pilot, tuner, fewest=LENGTHEN * len(recipe.temperatures))
    recipe = recipe._replace(num_particles=sizing.num_particles)
    algorithm = recipe.build(start, log_joint, tuner)
    return Annealed(start, recipe, pilot, algorithm, spent, sizing.quick)


def half_of(log_joint: LogDensity, annealed: Annealed, tuner: Tuner) -> InferenceAlgorithm | None:
    """The same sampler at half the budget.

    With HMC half of the temperatures is left out, which needs no other program; other samplers
    have half of the particles.
    """
    if not isinstance(tuner, HmcTuner):
        return budget_version(annealed.algorithm, 0.5)
    halved = annealed.recipe.halved()
    return halved.build(annealed.start, log_joint, tuner, label="half the temperatures")


def make_rival(log_joint: LogDensity, annealed: Annealed, explored: Explored) -> Annealed:
    """The same sampler from another start, with the kernels that pilots found along that path.

    The rival has the numbers of temperatures and of particles of `annealed`, so that both run
    the same programs.
    """
    start, pilot, tuner = explored.start, explored.pilot, explored.tuner
    recipe = make_recipe(pilot, tuner, annealed.recipe)
    algorithm = recipe.build(start, log_joint, tuner, label="from a wider start")
    return Annealed(start, recipe, pilot, algorithm, pilot.num_evaluations)
