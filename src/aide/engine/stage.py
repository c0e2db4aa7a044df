"""Execution of a plan: runs block by block, here or through an executor, with checkpoints.

Public functions have every keyword of `RunOptions` and `Sizes` in their own signature, with the
type and the default that it has in `aide.draw`, where it is explained; `tests/test_signatures.py`
compares them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from typing import Any, TypedDict

import jax
import numpy as np

from aide._core.types import Role
from aide.engine.dataset import check_savable
from aide.engine.draws import Draws, Runs, join
from aide.engine.files import Checkpoint
from aide.engine.known import Known, check_repeated, check_sources
from aide.engine.outputs import check_log_xi, check_varied, fingerprints_of
from aide.engine.plan import Plan
from aide.engine.programs.map_runs import Progress
from aide.engine.programs.places import Devices, compile_all
from aide.engine.programs.prepared import Report
from aide.engine.programs.sending import Sent
from aide.engine.programs.sharing import Client, share_out, succeeded
from aide.engine.runners.runner import MetaRuns


class RunOptions(TypedDict, total=False):
    """Options of making runs, which every call that makes runs accepts."""

    measure_looseness: bool
    keep_values: bool | None
    chunk_size: int | None
    progress: bool | None
    executor: Executor | Client | None
    unchanged: bool


class Sizes(TypedDict, total=False):
    """Numbers of runs of each kind."""

    num_gold: int | None
    num_target: int | None
    num_meta_gold: int
    num_meta_target: int
    measure_looseness: bool
    first_run: int
    chunk_size: int | None


Keep = Callable[[Role, int, Runs], None]
"""Stores a block by its role and first run; storing a block twice changes nothing."""
Block = tuple[Role, int, int, Runs | None]
"""Runs of a role, from the first to before the last, and what is known of them."""
Waiting = list[tuple[Role, int, Future[tuple[Runs, int]]]]


def num_parts_for(executor: Executor | None) -> int:
    """Least number of blocks into which runs are divided: one for every device."""
    return len(executor.devices) if isinstance(executor, Devices) else 1


def run_plan(
    plan: Plan,
    known: Known,
    *,
    file: Checkpoint | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
    unchanged: bool = False,
) -> Draws:
    """All runs of the plan, with their outputs; every call that makes draws ends here.

    Args:
        plan: The runs that are needed.
        known: Runs that need not be repeated; stored ones are checked.
        file: A checkpoint, which grows block by block.
        executor: Runs the blocks; by default this process does.
        progress: See `aide.draw`.
        unchanged: See `aide.draw`.
    """
    blocks: dict[Role, dict[int, Runs]] = {role: {} for role in Role}

    def save() -> None:
        if file is not None:
            gold, target = (
                known.runs[role].grown([*blocks[role].values()], plan.keep_values) for role in Role
            )
            file.save(plan.header, (gold, target))

    def keep(role: Role, begin: int, runs: Runs) -> None:
        blocks[role][begin] = runs
        if file is not None and file.is_due:
            save()

    names = [f"{role.word:<6}  {plan.header.side(role).name}" for role in Role]
    totals = [plan.remaining_work(role, known.runs[role]) for role in Role]
    with Progress(names, totals, progress) as bar, ExitStack() as stack:
        check_sources(plan, known.sources, unchanged)
        if executor is None:
            compile_all(plan.compile_tasks())
        check_repeated(plan, known)
        if file is not None:  # raises now for an unwritable file, or outputs that cannot be saved
            check_savable(plan.output if plan.keep_values else None)
            save()
            stack.enter_context(file.saved_at_the_end(save))
        todo = [
            (role, begin, end, known.runs[role].part(begin, end))
            for role in Role
            for begin, end in plan.blocks(role, known.runs[role])
        ]
        if executor is not None:
            _run_elsewhere(plan, todo, executor, bar, keep)
        else:
            for role, begin, end, reuse in todo:
                keep(role, begin, _draw_block(plan, role, begin, end, reuse, bar.reporter(role)))
    gold, target = (join([*blocks[role].values()]) for role in Role)
    return plan.header.with_runs(gold, target)


def _run_elsewhere(
    plan: Plan, blocks: Sequence[Block], executor: Executor, bar: Progress, keep: Keep
) -> None:
    """Run blocks by an executor and `keep` them: for each role in order, without gaps."""
    sent = Sent(plan)

    def take(number: int, found: tuple[Runs, int]) -> None:
        role, begin, *_ = blocks[number]
        runs, done = found
        keep(role, begin, runs)
        bar.reporter(role)(done)

    def rescue(futures: list[Future[tuple[Runs, int]]]) -> None:
        pairs = zip(blocks, futures, strict=False)
        _keep_finished([(role, begin, future) for (role, begin, *_), future in pairs], keep)

    tasks = [(sent, *block) for block in blocks]
    parts = {role.word: task.algorithm for role, task in plan.tasks.items()}
    share_out(executor, _draw_there, tasks, take, parts=parts, rescue=rescue)


def _draw_block(
    plan: Plan, role: Role, begin: int, end: int, known: Runs | None, report: Report
) -> Runs:
    """Runs `begin` to `end` of one algorithm, starting from known runs and scores.

    Runs that are unknown are simulated, and missing scores are drawn. A block is a function of the
    arguments: nothing else is read, and nothing is written.
    """
    task, numbers = plan.tasks[role], plan.first_run + np.arange(begin, end)
    known = Runs(np.empty((end - begin, 0)), np.empty((end - begin, 0))) if known is None else known
    own, cross = known.own[:, : task.num_own], known.cross[:, : task.num_cross]
    values, first, prints = known.values, known.first, known.fingerprints
    complete = own.shape[1] == task.num_own and cross.shape[1] == task.num_cross
    if complete and (values is not None or not plan.keep_values):
        return Runs(own, cross, values, first, prints)
    if values is None:
        values, log_xi = task.runner.simulate(plan.key, role, numbers, task.simulate, report)
        _check_simulated(plan, role, numbers, values, log_xi)
        prints = fingerprints_of(values)
        check_varied(role.word, task.algorithm, values, prints)
        if own.shape[1]:
            _check_same(role, own[:, 0], log_xi)
        else:
            own = log_xi[:, None]
    values = jax.tree.map(lambda a, like: np.asarray(a).astype(like.dtype), values, plan.output)
    if begin == 0:
        first = jax.tree.map(lambda a: a[0], values)

    def with_scores(table: np.ndarray, num: int, by: Role) -> np.ndarray:
        if table.shape[1] >= num:
            return table
        asked = MetaRuns(role, values, numbers, np.arange(table.shape[1], num), own=by is role)
        scorer = plan.tasks[by]
        log_xi = scorer.runner.regenerate(plan.key, asked, scorer.regenerate, report)
        check_log_xi(by.word, scorer.algorithm, "regenerate", log_xi, values)
        return np.concatenate([table, log_xi], axis=1)

    own = with_scores(own, task.num_own, role)
    return Runs(own, with_scores(cross, task.num_cross, role.other), values, first, prints)


def _check_simulated(
    plan: Plan, role: Role, numbers: np.ndarray, values: Any, log_xi: np.ndarray
) -> None:
    """Raise an error that says what is wrong with the scores of some runs, if anything is."""
    task = plan.tasks[role]

    def replay(row: int) -> None:
        task.runner.replay(plan.key, role, int(numbers[row]))

    check_log_xi(role.word, task.algorithm, "simulate", log_xi, values, replay)


def _check_same(role: Role, stored: np.ndarray, again: np.ndarray) -> None:
    if not np.allclose(stored, again, rtol=1e-6, atol=1e-6):
        raise ValueError(
            f"the stored runs were not made by this {role.word} algorithm: run again with the same "
            f"key, its first log_xi is {again[0]:.6g} instead of {stored[0]:.6g}. Draw afresh, "
            "without share, extend or the old checkpoint."
        )


def _draw_there(
    sent: Sent, role: Role, begin: int, end: int, known: Runs | None
) -> tuple[Runs, int]:
    """Draw a block in another thread, process or machine; also return its number of runs."""
    done = [0]

    def report(num: int) -> None:
        done[0] += num

    return _draw_block(sent.thing, role, begin, end, known, report), done[0]


def _keep_finished(waiting: Waiting, keep: Keep) -> None:
    """Store finished blocks, and wait for unfinished ones before a finished one of their role."""
    for role in Role:
        own = [(begin, future) for other, begin, future in waiting if other is role]
        finished = [number for number, (_, future) in enumerate(own) if succeeded(future)]
        for begin, future in own[: max(finished, default=-1) + 1]:
            if future.cancelled() or future.exception() is not None:
                break
            keep(role, begin, future.result()[0])
