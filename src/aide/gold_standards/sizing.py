r"""How many particles: until the looseness asked for is met, or the budget is spent.

With $l = \log\xi_2 - \log\xi_1$ of a run and its regeneration, given $|l|$ the sign is known
(law 2), so that the looseness $-E[l]$ is $E[|l|\tanh(|l|/2)]$: terms that are never negative, of
relative error $\sqrt{2/n}$ however small it is. It falls like $1/P$ once it is below a nat.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import GOLD
from aide._core.types import Key
from aide.running.choose import runner_of
from aide.running.chunks import Chunk
from aide.running.map_runs import Report, ignore

FEWEST_PARTICLES = 32
NUM_RUNS = 40
"""Runs behind every decision, and of the final test."""
MOST_ATTEMPTS, MOST_GROWTH = 6, 8.0


class Pairs(NamedTuple):
    r"""Runs, each regenerated once.

    Attributes:
        log_xi: Of the runs.
        regenerated: Of one regeneration of each.
    """

    log_xi: Float[np.ndarray, " n"]
    regenerated: Float[np.ndarray, " n"]

    @property
    def terms(self) -> Float[np.ndarray, " n"]:
        r"""$|l|\tanh(|l|/2)$, whose mean is the looseness."""
        gap = np.abs(self.regenerated - self.log_xi)
        return np.where(np.isfinite(gap), gap * np.tanh(np.minimum(gap, 100.0) / 2), np.inf)

    @property
    def looseness(self) -> float:
        """Their mean."""
        return float(np.mean(self.terms))

    @property
    def std_error(self) -> float:
        """Standard error of the looseness."""
        return float(np.std(self.terms, ddof=1) / np.sqrt(len(self.terms)))


def run_pairs(key: Key, algorithm: InferenceAlgorithm, num: int, report: Report = ignore) -> Pairs:
    """Run and regenerate so many times, by the programs that estimates use."""
    runner, runs, chunk = runner_of(algorithm), np.arange(num), Chunk(num)
    values, log_xi = runner.simulate(key, GOLD, runs, chunk, report)
    metas = np.ones(1, int)
    fresh = runner.regenerate(key, GOLD, values, runs, metas, chunk, report, own=True)
    return Pairs(log_xi, fresh[:, 0])


class Sizing(NamedTuple):
    """How many particles, and what it cost to find out."""

    num_particles: int
    num_evaluations: float


def choose_size(
    key: Key,
    build: Callable[[int], InferenceAlgorithm],
    guess: int,
    goal: float,
    cost: float,
    most: float,
) -> Sizing:
    """The fewest particles with a looseness of at most `goal`, as far as a few runs tell.

    The first trials have half as many, which the test of the result needs again as its own half.

    Args:
        key: A JAX key.
        build: The algorithm with so many particles.
        guess: A first number.
        goal: Nats.
        cost: Evaluations per particle and run.
        most: Evaluations that may be spent here.
    """
    num, spent = max(FEWEST_PARTICLES, rounded(guess)) // 2, 0.0
    for attempt in range(MOST_ATTEMPTS):
        found = run_pairs(jax.random.fold_in(key, attempt), build(num), NUM_RUNS).looseness
        spent += 2 * NUM_RUNS * num * cost
        affordable = int((most - spent) / (2 * NUM_RUNS * cost))
        if found <= goal:
            return Sizing(num, spent)
        if found <= 2 * goal or affordable < 1.2 * num:
            break
        # A looseness of many nats falls faster than 1/P, and says little about how fast.
        factor = float(np.clip(1.2 * found / (2 * goal), 1.5, MOST_GROWTH))
        num = min(rounded(num * factor), affordable)
    return Sizing(2 * num, spent)


def rounded(num: float) -> int:
    """Two digits, rounded up, at least 1: sizes that people can remember."""
    num = max(num, 1)
    unit = 10 ** max(0, int(np.floor(np.log10(num))) - 1)
    return int(np.ceil(num / unit) * unit)
