"""Carrying out a plan: every block run, kept, and saved on the way."""

from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import ExitStack
from typing import Any

import jax
import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.engine.options import Client
from aide.engine.outputs import check_log_xi, check_varied, fingerprints_of
from aide.engine.plan import Plan, Request, draws_without_runs, remaining_work
from aide.engine.programs.map_runs import Report
from aide.engine.programs.places import Devices
from aide.engine.programs.progress import Progress
from aide.engine.programs.store import folder_of_programs, keep_programs
from aide.engine.runners.runner import MetaRuns
from aide.engine.runners.workers import WORKERS_ENDED, explain_refusal, pickle_bound_methods
from aide.engine.runs import Kept, Runs, join
from aide.engine.storage.checkpoint import Checkpoint
from aide.engine.storage.dataset import check_savable


def progress_of(request: Request, known: Mapping[Role, Kept], show: bool | None) -> Progress:
    """A bar for each role."""
    totals = remaining_work(request, known)
    names = [f"{role.word:<6}  {request.names[role]}" for role in Role]
    return Progress(names, [totals[role] for role in Role], show)


def run_plan(
    plan: Plan,
    known: Mapping[Role, Kept],
    file: Checkpoint | None,
    executor: Executor | None,
    bar: Progress,
) -> Draws:
    """All runs of the plan, with their outputs; `file` grows block by block."""
    header, keep_values = (
        draws_without_runs(plan.request, plan.identities),
        plan.request.keep_values,
    )
    sides: dict[Role, dict[int, Runs]] = {role: {} for role in Role}

    def save() -> None:
        if file is not None:
            grown = {
                role: known[role].with_runs([*sides[role].values()], keep_values) for role in Role
            }
            file.save(header, (grown[GOLD], grown[TARGET]))

    def keep(role: Role, begin: int, runs: Runs) -> None:
        sides[role][begin] = runs
        if file is not None and file.is_due:
            save()

    with ExitStack() as stack:
        if file is not None:  # an unwritable file, or outputs that cannot be saved, show now
            check_savable(plan.output if keep_values else None)
            save()
            stack.enter_context(file.saved_at_the_end(save))
        run_blocks(plan, known, executor, bar, keep)
    joined = {role: join([*blocks.values()]) for role, blocks in sides.items()}
    return header.with_runs(joined[GOLD], joined[TARGET])


def draw_block(
    plan: Plan, role: Role, begin: int, end: int, known: Runs | None, report: Report
) -> Runs:
    """Runs `begin` to `end` of one role, starting from what `known` holds of them."""
    request, runner = plan.request, plan.runners[role]
    runs = np.arange(request.first_run + begin, request.first_run + end)
    num_own, num_cross = request.num_own(role), request.num_cross(role)
    own = np.empty((len(runs), 0)) if known is None else known.own[:, :num_own]
    cross = np.empty((len(runs), 0)) if known is None else known.cross[:, :num_cross]
    values = None if known is None else known.values
    complete = own.shape[1] == num_own and cross.shape[1] == num_cross
    first, prints = (None, None) if known is None else (known.first, known.fingerprints)
    if complete and (values is not None or not request.keep_values):
        return Runs(own, cross, values, first, prints)

    if values is None:
        chunk = plan.simulate_chunks[role]
        values, log_xi = runner.simulate(request.key, role, runs, chunk, report)

        def replay(row: int) -> None:
            runner.replay(request.key, role, int(runs[row]))

        algorithm = request.algorithms[role]
        check_log_xi(role.word, algorithm, "simulate", log_xi, values, replay)
        prints = fingerprints_of(values)
        check_varied(role.word, algorithm, values, prints)
        if own.shape[1]:
            _check_same(role, own[:, 0], log_xi)
        else:
            own = log_xi[:, None]
    values = jax.tree.map(lambda a, like: np.asarray(a).astype(like.dtype), values, plan.output)
    if begin == 0:
        first = jax.tree.map(lambda a: a[0], values)

    def score(by: Role, metas: np.ndarray) -> np.ndarray:
        chunk = plan.regenerate_chunks[by]
        asked = MetaRuns(role, values, runs, metas, own=by is role)
        log_xi = plan.runners[by].regenerate(request.key, asked, chunk, report)
        check_log_xi(by.word, request.algorithms[by], "regenerate", log_xi, values)
        return log_xi

    if own.shape[1] < num_own:
        metas = np.arange(own.shape[1], num_own)
        own = np.concatenate([own, score(role, metas)], axis=1)
    if cross.shape[1] < num_cross:
        metas = np.arange(cross.shape[1], num_cross)
        cross = np.concatenate([cross, score(role.other, metas)], axis=1)
    return Runs(own, cross, values, first, prints)


def _check_same(role: Role, stored: np.ndarray, again: np.ndarray) -> None:
    if not np.allclose(stored, again, rtol=1e-6, atol=1e-6):
        raise ValueError(
            f"the stored runs were not made by this {role.word} algorithm: run again with the same "
            f"key, its first log_xi is {again[0]:.6g} instead of {stored[0]:.6g}. Draw afresh, "
            "without share, extend or the old checkpoint."
        )


Keep = Callable[[Role, int, Runs], None]
"""Keeps a block by its role and first run; to keep it twice changes nothing."""
Waiting = list[tuple[Role, int, Future[tuple[Runs, int]]]]


def as_executor(executor: Executor | Client | None) -> Executor | None:
    """An executor, or that of a `distributed.Client`.

    Raises:
        TypeError: It is neither.
    """
    made = executor.get_executor() if isinstance(executor, Client) else executor
    if made is not None and not hasattr(made, "submit"):
        raise TypeError(
            "executor must be a concurrent.futures.Executor or a distributed.Client, got "
            f"{executor!r}."
        )
    return made


def num_parts_for(executor: Executor | None) -> int:
    """Into how many blocks runs are to be divided at least: one for every device."""
    return len(executor.devices) if isinstance(executor, Devices) else 1


def run_blocks(
    plan: Plan,
    known: Mapping[Role, Kept],
    executor: Executor | None,
    bar: Progress,
    keep: Keep,
) -> None:
    """Run every block that the plan needs and `keep` it: per role in order, without gaps."""
    blocks = [
        (role, begin, end, known[role].side(begin, end))
        for role in Role
        for begin, end in plan.blocks(role, known[role])
    ]
    if executor is None:
        for role, begin, end, reuse in blocks:
            keep(role, begin, draw_block(plan, role, begin, end, reuse, bar.reporter(role)))
        return
    pickle_bound_methods()
    folder = folder_of_programs()
    waiting: Waiting = []
    try:
        for block in blocks:
            future = executor.submit(_draw_there, plan, folder, *block)
            waiting.append((block[0], block[1], future))
        for role, begin, future in waiting:
            side, done = future.result()
            keep(role, begin, side)
            bar.reporter(role)(done)
    except BaseException as error:
        for *_, future in waiting:
            future.cancel()
        _keep_finished(waiting, keep)
        _explain(plan, error)
        raise


def _draw_there(
    plan: Plan, folder: Any, role: Role, begin: int, end: int, known: Runs | None
) -> tuple[Runs, int]:
    """A block, in whatever thread, process or machine; and how many runs and meta-runs it took."""
    if folder is not None and folder_of_programs() is None:
        keep_programs(folder)
    done = [0]

    def report(num: int) -> None:
        done[0] += num

    return draw_block(plan, role, begin, end, known, report), done[0]


def _keep_finished(waiting: Waiting, keep: Keep) -> None:
    """Keep what is finished. A block that others have overtaken is waited for, or they are lost."""
    for role in Role:
        mine = [(begin, future) for other, begin, future in waiting if other is role]
        finished = [number for number, (_, future) in enumerate(mine) if _succeeded(future)]
        for begin, future in mine[: max(finished, default=-1) + 1]:
            if future.cancelled() or future.exception() is not None:
                break
            keep(role, begin, future.result()[0])


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _explain(plan: Plan, error: BaseException) -> None:
    """Raise an error with a fix where the executor could not send the plan or lost its workers."""
    if "pickle" in str(error):
        for role in Role:
            words = explain_refusal(role.word, plan.request.algorithms[role])
            if words is not None:
                raise TypeError(words) from error
    if isinstance(error, BrokenExecutor):
        error.add_note(WORKERS_ENDED)
