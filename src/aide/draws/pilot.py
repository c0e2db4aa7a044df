"""A few runs, and what one costs: by them later runs are planned, and in no result are they."""

from typing import Any, NamedTuple

import jax

from aide._core.algorithm import InferenceAlgorithm
from aide._core.random import as_key
from aide._core.roles import GOLD, TARGET, Role
from aide._core.types import Key
from aide.draws.draws import Draws
from aide.draws.plan import make_plan
from aide.draws.request import make_request
from aide.draws.stage import progress_of, run_plan
from aide.draws.storage.kept import nothing
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
    """Some runs with their own key.

    Attributes:
        draws: The runs.
        costs: Of the gold standard and the target.
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


def run_pilot(
    key: Key, gold: InferenceAlgorithm, target: InferenceAlgorithm, **settings: Any
) -> Pilot:
    """Run both algorithms a few times under a key of their own, against the clock.

    Args:
        key: The key of the call that is being planned.
        gold: The gold standard.
        target: The algorithm being measured.
        **settings: Those of `aide.draw` that say how many runs and meta-runs.
    """
    key = jax.random.fold_in(as_key(key), PILOT)
    request = make_request(key, gold, target, **settings)
    runners = {GOLD: TimedRunner(runner_of(gold)), TARGET: TimedRunner(runner_of(target))}
    plan = make_plan(request, runners)
    compile_all(plan.compile_tasks())
    known = {role: nothing() for role in Role}
    with progress_of(request, known, False) as bar:
        draws = run_plan(plan, known, None, None, bar)
    costs = [
        Cost(
            runner.simulate_seconds / max(runner.num_simulated, 1),
            runner.regenerate_seconds / max(runner.num_regenerated, 1),
        )
        for runner in runners.values()
    ]
    return Pilot(draws, (costs[0], costs[1]), _chunk_size(plan, request.chunk_size))


def _chunk_size(plan: Any, wanted: int | None) -> int | None:
    """The smaller of the two algorithms' chunks on a CPU, where small chunks cost nothing."""
    if wanted is not None or not current_place().is_cpu:
        return wanted
    request = plan.request
    looks = [
        plan.runners[role].look(request.key, role, request.first_run, plan.simulate_chunks[role])
        for role in Role
    ]
    return min(look.chunk_size for look in looks)
