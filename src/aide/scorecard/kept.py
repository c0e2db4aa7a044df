"""Work that is kept: one file per task, one process each, and a reason in place of a failure."""

import json
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

from aide.engine.programs.map_runs import Progress
from aide.scorecard.facts import facts
from aide.scorecard.pairs import CannotRun
from aide.scorecard.task import reason_of, write_json


class KeptTask(Protocol):
    """A task with a file, which exists when the task is finished."""

    @property
    def name(self) -> str:
        """The name in the file."""

    @property
    def file(self) -> Path:
        """Where the row is written."""

    def refusal(self) -> str:
        """Return a reason, known without any work, why there is no row; empty if there is none."""

    def row(self) -> dict[str, Any]:
        """Do the work."""


def finish(task: KeptTask) -> None:
    """Do a task and write its row; an error is a row with the reason."""
    begun = facts()
    try:
        found = task.row()
    except CannotRun as error:
        found = {"reason": str(error)}
    except Exception as error:  # a row that fails is a row with its reason
        found = {"reason": reason_of(error)}
    write_json(task.file, {"name": task.name, **begun, **found})


def finish_all(
    tasks: Sequence[KeptTask],
    *,
    num_workers: int = 1,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> None:
    """Do all tasks without a file, each in a process of its own unless an executor is given."""
    for task in tasks:
        if not task.file.exists() and (reason := task.refusal()):
            write_json(task.file, {"name": task.name, **facts(), "reason": reason})
    missing = [task for task in tasks if not task.file.exists()]
    with Progress(["posteriors"], [len(missing)], progress) as bars:
        report = bars.reporter(0)
        if executor is not None:
            futures = [executor.submit(finish, task) for task in missing]
            _wait(missing, [future.result for future in futures], report)
            return
        with ThreadPoolExecutor(num_workers) as threads:
            futures = [threads.submit(_in_own_process, task) for task in missing]
            _wait(missing, [future.result for future in futures], report)


def _wait(
    tasks: Sequence[KeptTask], results: Sequence[Callable[[], None]], report: Callable[[int], Any]
) -> None:
    for task, result in zip(tasks, results, strict=True):
        try:
            result()
        except (BrokenProcessPool, RuntimeError, OSError) as error:
            reason = f"The process that ran this posterior ended: {reason_of(error)}"
            write_json(task.file, {"name": task.name, **facts(), "reason": reason})
        report(1)


def _in_own_process(task: KeptTask) -> None:
    """Do one task in a fresh process, whose memory goes with it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(finish, task).result()


def read_rows(folder: Path) -> tuple[dict[str, Any], ...]:
    """Read all rows of a folder, in the order of their names."""
    return tuple(json.loads(path.read_text()) for path in sorted(folder.glob("*.json")))
