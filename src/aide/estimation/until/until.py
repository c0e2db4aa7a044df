r"""Adding runs until a goal is reached, with limits that hold whenever the call stops.

A pilot under a key of its own chooses M, the size of the first look, and how runs are divided
between the two algorithms. Looks then follow at fixed multiples of that size, and every limit of
look $k$ is stated at the level $1 - (1 - level)/(k(k+1))$ (`InterimLook`). Given the pilot, all
sizes are fixed in advance, so that with probability `level` the limits of *all* looks hold, and the
decision to stop may use any of the results. `benchmarks/studies/verdicts.py` measures how often
verdicts are wrong.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import Key, Role
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.engine.pilot import run_pilot
from aide.engine.stage import RunOptions, Sizes
from aide.estimation.errors.variables import posterior_of
from aide.estimation.interval import InterimLook, share_of
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Goal, Limits
from aide.estimation.until.plan import Allocation, allocate, plan_path, read_plan, write_plan

PILOT_RUNS = 64
"""Runs of either algorithm in a pilot: its variances are known to about a fifth."""
PILOT_METAS = 4
"""Meta-inference runs of the pilot per output: they show how fast the bound falls from 2 to 4."""
LEAST_GROWTH = 1.25
"""Least factor by which the rest of the budget must multiply the runs for another look."""

Call = tuple[Key | int, InferenceAlgorithm, InferenceAlgorithm]
"""The key, the gold standard and the target."""


def estimate_until(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    goal: Goal,
    limits: Limits,
    *,
    runs: tuple[int | None, int | None] = (None, None),
    metas: tuple[int | None, int | None] = (None, None),
    share: float = 1.0,
    plan: Allocation | None = None,
    shared: Draws | None = None,
    how: RunOptions | None = None,
    checkpoint: str | Path | None = None,
) -> Estimate:
    """Add runs until the goal is reached or the budget spent.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        target: The algorithm being measured.
        goal: When to stop.
        limits: What the call may cost.
        runs: Runs of gold standard and target at the first look; by default the pilot chooses.
        metas: M of gold standard and target; by default the pilot chooses.
        share: Share of the permitted error that all looks together may spend.
        plan: The plan of an earlier pilot; by default a pilot is run.
        shared: Draws of another target whose gold runs are used again.
        how: Further options of `aide.draw`.
        checkpoint: The file that keeps finished runs; see `aide.draw`.
    """
    how = {} if how is None else how
    begun = time.monotonic()
    if plan is None:
        call, size = (key, gold, target), how.get("chunk_size")
        plan = _plan(call, goal, runs, metas, size, checkpoint)
        limits = limits._replace(runs=max(limits.runs - 2 * PILOT_RUNS, 0))
    sizes = np.minimum(plan.runs, _affordable(plan, limits, begun, (0, 0)))
    sizes = np.maximum(sizes.astype(int), 2)
    known = {} if shared is None else {"share": shared}
    named = posterior_of(gold, target)
    number = 0
    while True:
        number += 1
        draws = _draw((key, gold, target), plan, sizes, known, goal, how, checkpoint)
        known = {"extend": draws}
        found = Estimate(draws, InterimLook(share * share_of(number)), posterior=named)
        reason = goal.reason(found)
        if reason:
            return replace(found, look=found.look._replace(words=_words(reason, number, plan)))
        done = tuple(side.num_runs for side in draws.sides)
        wanted = np.ceil(goal.growth * sizes).astype(int)
        limit = _affordable(plan, limits, begun, done)
        following = np.minimum(wanted, limit.astype(int))
        if following.sum() < LEAST_GROWTH * sum(done):
            words = _words(f"the budget is spent, {goal.lacking(found)}", number, plan)
            return replace(found, look=found.look._replace(words=words))
        sizes = np.maximum(following, sizes)


def _plan(
    call: Call,
    goal: Goal,
    runs: tuple[int | None, int | None],
    metas: tuple[int | None, int | None],
    chunk_size: int | None,
    checkpoint: str | Path | None,
) -> Allocation:
    """The plan of the stored file, if there is one; otherwise that of a pilot."""
    file = None if checkpoint is None else plan_path(checkpoint)
    pair, given = call[1:], [runs, metas]
    plan = None if file is None else read_plan(file, pair, goal, given)
    if plan is not None:
        return plan
    sizes: Sizes = {
        "num_gold": PILOT_RUNS,
        "num_target": PILOT_RUNS,
        "num_meta_gold": metas[0] or PILOT_METAS,
        "num_meta_target": metas[1] or PILOT_METAS,
        "chunk_size": chunk_size,
    }
    pilot = run_pilot(*call, sizes)
    plan = allocate(pilot, goal, metas)
    first = (
        plan.runs[0] if runs[0] is None else runs[0],
        plan.runs[1] if runs[1] is None else runs[1],
    )
    plan = plan._replace(runs=first)
    if file is not None:
        write_plan(file, plan, pair, goal, given)
    return plan


def _draw(
    call: Call,
    plan: Allocation,
    sizes: np.ndarray,
    known: dict[str, Draws],
    goal: Goal,
    how: RunOptions,
    checkpoint: str | Path | None,
) -> Draws:
    """The runs of a look; those of earlier looks are used again."""
    settings: dict[str, Any] = {"keep_values": goal.keep_values, "chunk_size": plan.chunk_size}
    settings |= {name: value for name, value in how.items() if value is not None}
    settings |= known if checkpoint is None else {"checkpoint": checkpoint}
    return draw(
        *call,
        num_gold=int(sizes[0]),
        num_target=int(sizes[1]),
        num_meta_gold=plan.metas[0],
        num_meta_target=plan.metas[1],
        **settings,
    )


def _affordable(
    plan: Allocation, limits: Limits, begun: float, done: tuple[int, ...]
) -> np.ndarray:
    """Runs of either algorithm, in the plan's proportions, that all limits together allow."""
    proportions = np.array(plan.runs) / sum(plan.runs)
    left = limits.seconds - (time.monotonic() - begun)
    if np.isinf(left):
        return proportions * limits.runs
    per_run = float(proportions @ np.array(plan.seconds))
    return proportions * min(limits.runs, sum(done) + max(left, 0.0) / per_run)


def _words(reason: str, number: int, plan: Allocation) -> str:
    """Why the call stopped, after how many looks, and with which M."""
    metas = " and ".join(f"{num} ({role.word})" for role, num in zip(Role, plan.metas, strict=True))
    looks = "1 look" if number == 1 else f"{number} looks"
    return (
        f"{reason[:1].upper()}{reason[1:]}, after {looks}. A pilot chose M = {metas}. All limits "
        "allow for further looks."
    )
