"""Runs against the clock: targets measured one after another beside one gold standard."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Unpack

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.random import as_key
from aide._core.types import GOLD, TARGET, Key, Role, Value
from aide.engine.draws import Draws
from aide.engine.options import Sizes
from aide.engine.plan import Plan, make_plan, make_request
from aide.engine.programs.identity import Identity
from aide.engine.programs.map_runs import Report
from aide.engine.programs.places import Chunk, compile_all, current_place
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import runner_of
from aide.engine.runners.runner import Look, MetaRuns, Runner
from aide.engine.runs import Kept, nothing
from aide.engine.stage import progress_of, run_plan

PILOT = 2**32 - 2
"""The number that makes the key of a pilot out of the key of a call."""


class Cost(NamedTuple):
    """Seconds of one run and of one meta-run of an algorithm, as they were measured."""

    simulate: float
    regenerate: float


class Pilot(NamedTuple):
    """Some runs, and what one costs.

    Attributes:
        draws: The runs.
        costs: Of the gold standard and the target; 0 for a run that was there already.
        chunk_size: Runs at a time that later calls may use, so that nothing is compiled again;
            `None` leaves it to them.
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
    """A gold standard, its runs, and the clock: what it measures has the draws of `aide.draw`.

    Only the runs of the gold standard stay in memory.
    """

    def __init__(self, key: Key | int, gold: InferenceAlgorithm):
        self._key, self._gold = as_key(key), gold
        self._runner = TimedRunner(runner_of(gold))
        self._known: Kept = nothing()

    def measure(
        self,
        target: InferenceAlgorithm,
        *,
        progress: bool | None = False,
        **settings: Unpack[Sizes],
    ) -> Pilot:
        """Draws of one target, outputs included, and seconds of one run of either algorithm."""
        request = make_request(self._key, self._gold, target, **settings)
        runners = {GOLD: self._runner, TARGET: TimedRunner(runner_of(target))}
        plan = make_plan(request, runners)
        known = {GOLD: self._known, TARGET: nothing()}
        with progress_of(request, known, progress) as bar:
            compile_all(plan.compile_tasks())
            draws = run_plan(plan, known, None, None, bar)
        mine = Kept.of(draws.gold).without_cross()
        if mine.size > self._known.size:
            self._known = mine
        costs = [
            Cost(
                runner.simulate_seconds / max(runner.num_simulated, 1),
                runner.regenerate_seconds / max(runner.num_regenerated, 1),
            )
            for runner in runners.values()
        ]
        return Pilot(draws, (costs[0], costs[1]), _chunk_size(plan))


@one_call()
def run_pilot(
    key: Key | int, gold: InferenceAlgorithm, target: InferenceAlgorithm, **settings: Unpack[Sizes]
) -> Pilot:
    """Run both algorithms a few times under a key of their own, by which later runs are planned.

    Args:
        key: The key of the call that is being planned.
        gold: The gold standard.
        target: The algorithm being measured.
        **settings: Those of `aide.draw` that say how many runs and meta-runs.
    """
    return TimedGold(pilot_key(key), gold).measure(target, **settings)


def pilot_key(key: Key | int) -> Key:
    """The key of runs by which others are planned, and which are in no result."""
    return jax.random.fold_in(as_key(key), PILOT)


def _chunk_size(plan: Plan) -> int | None:
    """The smaller of the two algorithms' chunks on a CPU, where small chunks cost nothing."""
    request = plan.request
    if request.chunk_size is not None or not current_place().is_cpu:
        return request.chunk_size
    looks = [
        plan.runners[role].look(request.key, role, request.first_run, plan.simulate_chunks[role])
        for role in Role
    ]
    return min(look.chunk_size for look in looks)


class TimedRunner:
    """Runs as another runner does, and adds up seconds and runs of either operation.

    Attributes:
        simulate_seconds: Spent in `simulate`.
        regenerate_seconds: Spent in `regenerate`.
        num_simulated: Runs made.
        num_regenerated: Meta-runs made.
    """

    def __init__(self, runner: Runner):
        self._runner = runner
        self.simulate_seconds = self.regenerate_seconds = 0.0
        self.num_simulated = self.num_regenerated = 0

    @property
    def algorithm(self) -> Any:
        """What it runs."""
        return self._runner.algorithm

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Look at one output."""
        return self._runner.look(key, role, first_run, chunk)

    def identity(self, key: Key) -> Identity:
        """What the algorithm computes."""
        return self._runner.identity(key)

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """What the other runner compiles."""
        return self._runner.compile_tasks(key, output, simulate, regenerate)

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        begun = time.perf_counter()
        found = self._runner.simulate(key, role, runs, chunk, report)
        self.simulate_seconds += time.perf_counter() - begun
        self.num_simulated += len(runs)
        return found

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        begun = time.perf_counter()
        found = self._runner.regenerate(key, asked, chunk, report)
        self.regenerate_seconds += time.perf_counter() - begun
        self.num_regenerated += len(asked.runs) * len(asked.metas)
        return found

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Repeat one run outside of compiled code, for its errors."""
        self._runner.replay(key, role, run)
