"""Timed runs: targets measured one after another with one gold standard."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role, Value
from aide.engine.draws import NO_RUNS, Draws, Runs
from aide.engine.known import Known
from aide.engine.plan import Plan, make_plan
from aide.engine.programs.places import Chunk, current_place
from aide.engine.programs.prepared import Report
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import MetaRuns, Runner
from aide.engine.stage import Sizes, run_plan

PILOT = 2**32 - 2
"""Number that derives the key of a pilot from the key of a call, unused for anything else."""


class Cost(NamedTuple):
    """Measured seconds of one run and of one meta-inference run of an algorithm."""

    simulate: float
    regenerate: float


class PilotDraws(NamedTuple):
    """Some runs, and their cost.

    Attributes:
        draws: The runs.
        costs: Costs of the gold standard and the target; 0 for operations that were not run.
        chunk_size: Runs at a time that later calls may use, so that nothing is compiled again;
            `None` leaves the choice to them.
    """

    draws: Draws
    costs: tuple[Cost, Cost]
    chunk_size: int | None

    def run_cost(self, role: Role, metas: tuple[int, int]) -> float:
        """Seconds of one run of `role` and all its scores."""
        own, other = self.costs[role], self.costs[role.other]
        scores = metas[role] * own.regenerate + metas[role.other] * other.regenerate
        return max(own.simulate + scores, 1e-9)


class TimedGold:
    """A gold standard with its runs and a clock; its draws are those of `aide.draw`.

    Only the runs of the gold standard stay in memory.
    """

    def __init__(self, key: Key | int, gold: InferenceAlgorithm):
        self._key, self._gold = as_key(key), gold
        self._runs = NO_RUNS

    def __reduce__(self) -> Any:
        return _with_runs, (self._key, self._gold, self._runs)

    @cached_property
    def _runner(self) -> "TimedRunner":
        """The runner at the place of the first measurement, which in a worker is known late."""
        return TimedRunner(runner_of(self._gold))

    def measure(
        self,
        target: InferenceAlgorithm,
        sizes: Sizes,
        *,
        progress: bool | None = False,
    ) -> PilotDraws:
        """Draws of one target, outputs included, and seconds of one run of either algorithm."""
        runners: dict[Role, Any] = {GOLD: self._runner, TARGET: TimedRunner(runner_of(target))}
        plan = make_plan(self._key, self._gold, target, runners=runners, **sizes)
        known = Known({GOLD: self._runs, TARGET: NO_RUNS})
        draws = run_plan(plan, known, progress=progress)
        found = draws.gold.without_cross()
        if found.size > self._runs.size:
            self._runs = found
        gold, target_cost = (runner.cost for runner in runners.values())
        return PilotDraws(draws, (gold, target_cost), _chunk_size(plan, sizes.get("chunk_size")))


def _with_runs(key: Key, gold: InferenceAlgorithm, runs: Runs) -> TimedGold:
    """A gold standard in a worker, with the runs that were made before."""
    made = TimedGold(key, gold)
    made._runs = runs
    return made


@one_call()
def run_pilot(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    sizes: Sizes,
) -> PilotDraws:
    """Run both algorithms a few times under a separate key, to plan later runs.

    Args:
        key: The key of the call that is planned.
        gold: The gold standard.
        target: The algorithm that is measured.
        sizes: Numbers of runs and meta-inference runs, as in `aide.draw`.
    """
    return TimedGold(pilot_key(key), gold).measure(target, sizes)


def pilot_key(key: Key | int) -> Key:
    """The key of runs that plan others and are part of no result."""
    return jax.random.fold_in(as_key(key), PILOT)


def _chunk_size(plan: Plan, stated: int | None) -> int | None:
    """The smaller chunk size of both algorithms on a CPU, where small chunks cost nothing."""
    if stated is not None or not current_place().is_cpu:
        return stated
    return min(
        task.runner.look(plan.key, role, plan.first_run, task.simulate).chunk_size
        for role, task in plan.tasks.items()
    )


class TimedRunner:
    """Runs like another runner, and keeps seconds per run of every call of either operation."""

    def __init__(self, runner: Runner):
        self._runner = runner
        self._rates: dict[str, list[float]] = {"simulate": [], "regenerate": []}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    @property
    def cost(self) -> Cost:
        """Seconds of one run and of one meta-inference run; 0 if none was made.

        The median of all calls: what is compiled or loaded at the first run counts for nothing.
        """
        return Cost(*(float(np.median(rates)) if rates else 0.0 for rates in self._rates.values()))

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        with self._timed("simulate", len(runs)):
            return self._runner.simulate(key, role, runs, chunk, report)

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        with self._timed("regenerate", len(asked.runs) * len(asked.metas)):
            return self._runner.regenerate(key, asked, chunk, report)

    @contextmanager
    def _timed(self, name: str, num: int) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        if num:
            self._rates[name].append((time.perf_counter() - begun) / num)
