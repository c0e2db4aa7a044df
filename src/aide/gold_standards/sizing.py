r"""The number of particles: raised until the looseness is met, or the budget is spent.

Looseness falls like $1/P$ once it is below a nat.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import GOLD, Key
from aide.engine.programs.programs import compile_quickly
from aide.engine.runners.choose import run_pairs
from aide.gold_standards.budget import SIZING_GIVEN_UP, Budget, TooLate, now

FEWEST_PARTICLES = 32
"""Least number of particles: a choice."""
NUM_RUNS = 40
"""Runs behind every decision and in each part of the final test: a choice."""
NUM_TESTED = 9 * NUM_RUNS
"""Approximate number of runs and regenerations in the final test."""
MOST_ATTEMPTS = 6
"""Largest number of trials of a number of particles: a choice."""
MOST_GROWTH = 8.0
"""Largest factor between the numbers of particles of two trials: a choice."""
PATIENCE = 20.0
"""Processor seconds of runs in the final test up to which programs are compiled quickly rather than
well: quick compilation takes a third of the time, and the runs three times as long (measured)."""
HELPED = 0.7
"""More particles help if they reduce the looseness to less than this share: a choice."""


class Sizing(NamedTuple):
    """A number of particles, the cost of finding it, and whether few outputs stay loose.

    `quick`: whether runs are so short that a short compilation matters more than their speed.
    """

    num_particles: int
    num_evaluations: float
    is_rare: bool = False
    quick: bool = True


def choose_size(
    key: Key,
    build: Callable[[int], InferenceAlgorithm],
    guess: int,
    goal: float,
    cost: float,
    budget: Budget,
) -> Sizing:
    """The fewest particles with a looseness of at most `goal`, as far as a few runs can show.

    A trial runs half of the particles on which it decides: with twice as many the looseness is half
    of what the trial shows. The result is the number of the trial if that number was enough.

    Args:
        key: A JAX key.
        build: Builds the algorithm from a number of particles.
        guess: A first number of particles.
        goal: Largest accepted looseness, in nats.
        cost: Evaluations per particle and run.
        budget: Evaluations for this search, and seconds for the search and the tests together.
    """
    num, spent, last, quick = max(FEWEST_PARTICLES, rounded(guess)) // 2, 0.0, 0.0, True
    for attempt in range(MOST_ATTEMPTS):
        begun = now()
        try:
            with compile_quickly(quick), budget.until(SIZING_GIVEN_UP):
                pairs = run_pairs(jax.random.fold_in(key, attempt), build(num), GOLD, NUM_RUNS)
        except TooLate:
            return Sizing(num, spent, quick=quick)
        found, running = pairs.looseness, pairs.seconds / (NUM_RUNS * num)
        quick = quick and NUM_TESTED * 2 * num * running < PATIENCE
        spent += 2 * NUM_RUNS * num * cost
        affordable = (budget.evaluations - spent) / (2 * NUM_RUNS * cost)
        seconds = (now() - begun) / (2 * NUM_RUNS * num)
        if (
            budget.seconds_left < NUM_TESTED * 2 * num * seconds
        ):  # compilation counts: it comes again
            return Sizing(num, spent, quick=quick)
        if found <= goal:
            return Sizing(num, spent, quick=quick)
        if found <= 2 * goal or affordable < 1.2 * num:
            break
        if pairs.is_rare and found > HELPED * last:
            return Sizing(2 * num, spent, True, quick)
        # A looseness of many nats falls faster than 1/P, at a rate that it does not show.
        factor = float(np.clip(1.2 * found / (2 * goal), 1.5, MOST_GROWTH))
        num, last = int(min(rounded(num * factor), affordable)), found
    return Sizing(2 * num, spent, quick=quick)


def rounded(num: float) -> int:
    """Round up to two digits, and to at least 1: sizes that people can remember."""
    num = max(num, 1)
    unit = 10 ** max(0, int(np.floor(np.log10(num))) - 1)
    return int(np.ceil(num / unit) * unit)
