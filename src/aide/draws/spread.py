"""Blocks of runs, one after another or through an executor: results in order, whoever computes."""

from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from aide._core.roles import Role
from aide.draws.block import draw_block
from aide.draws.plan import Plan
from aide.draws.sides import Runs
from aide.draws.storage.kept import Kept
from aide.running.devices import Devices
from aide.running.pickling import WORKERS_ENDED, explain_refusal, pickle_bound_methods
from aide.running.progress import Progress
from aide.running.store import folder_of_programs, keep_programs

Keep = Callable[[Role, int, Runs], None]
"""Keeps a block by its role and first run; to keep it twice changes nothing."""
Waiting = list[tuple[Role, int, Future[tuple[Runs, int]]]]


def as_executor(executor: Any) -> Executor | None:
    """An executor, or that of a `distributed.Client`.

    Raises:
        TypeError: It is neither.
    """
    made = executor.get_executor() if hasattr(executor, "get_executor") else executor
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
