"""Runs against the clock: targets measured one after another beside one gold standard."""

from typing import Any, NamedTuple

import jax

from aide._core.algorithm import InferenceAlgorithm
from aide._core.random import as_key
from aide._core.roles import GOLD, TARGET, Role
from aide._core.types import Key
from aide.draws.draws import Draws
from aide.draws.plan import Plan, make_plan
from aide.draws.request import make_request
from aide.draws.stage import progress_of, run_plan
from aide.draws.storage.kept import Kept, nothing
from aide.running.call import one_call
from aide.running.choose import runner_of
from aide.running.device import current_place
from aide.running.threads import compile_all
from aide.running.timed import TimedRunner

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
        self, target: InferenceAlgorithm, *, progress: bool | None = False, **settings: Any
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
    key: Key | int, gold: InferenceAlgorithm, target: InferenceAlgorithm, **settings: Any
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
