r"""How many particles: until the looseness asked for is met, or the budget is spent.

It falls like $1/P$ once it is below a nat.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import GOLD
from aide._core.types import Key
from aide.gold_standards.budget import Budget
from aide.running.pairs import run_pairs

FEWEST_PARTICLES = 32
NUM_RUNS = 40
"""Runs behind every decision, and of the final test."""
NUM_TESTED = 9 * NUM_RUNS
"""Runs and regenerations of the final test, about."""
MOST_ATTEMPTS, MOST_GROWTH = 6, 8.0
HELPED = 0.7
"""Where more particles left less than that of the looseness, they are what helps."""


class Sizing(NamedTuple):
    """How many particles, what it cost to find out, and whether few outputs stay loose."""

    num_particles: int
    num_evaluations: float
    is_rare: bool = False


def choose_size(
    key: Key,
    build: Callable[[int], InferenceAlgorithm],
    guess: int,
    goal: float,
    cost: float,
    budget: Budget,
) -> Sizing:
    """The fewest particles with a looseness of at most `goal`, as far as a few runs tell.

    The first trials have half as many, which the test of the result needs again as its own half.

    Args:
        key: A JAX key.
        build: The algorithm with so many particles.
        guess: A first number.
        goal: Nats.
        cost: Evaluations per particle and run.
        budget: Evaluations that may be spent here, and seconds that must do for tests too.
    """
    num, spent, last = max(FEWEST_PARTICLES, rounded(guess)) // 2, 0.0, 0.0
    for attempt in range(MOST_ATTEMPTS):
        begun = time.monotonic()
        pairs = run_pairs(jax.random.fold_in(key, attempt), build(num), GOLD, NUM_RUNS)
        found = pairs.looseness
        spent += 2 * NUM_RUNS * num * cost
        affordable = (budget.evaluations - spent) / (2 * NUM_RUNS * cost)
        seconds = (time.monotonic() - begun) / (2 * NUM_RUNS * num)
        if (
            budget.seconds_left < NUM_TESTED * 2 * num * seconds
        ):  # compilation counts: it comes again
            return Sizing(num, spent)
        if found <= goal:
            return Sizing(num, spent)
        if found <= 2 * goal or affordable < 1.2 * num:
            break
        if pairs.is_rare and found > HELPED * last:
            return Sizing(2 * num, spent, True)
        # A looseness of many nats falls faster than 1/P, and says little about how fast.
        factor = float(np.clip(1.2 * found / (2 * goal), 1.5, MOST_GROWTH))
        num, last = int(min(rounded(num * factor), affordable)), found
    return Sizing(2 * num, spent)


def rounded(num: float) -> int:
    """Two digits, rounded up, at least 1: sizes that people can remember."""
    num = max(num, 1)
    unit = 10 ** max(0, int(np.floor(np.log10(num))) - 1)
    return int(np.ceil(num / unit) * unit)
