"""Running the card: posteriors in parallel, and what a stopped call goes on with."""

import fnmatch
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from aide._core.keywords import keywords
from aide._core.process import locked_folder, make_folder
from aide._core.validate import check_count, check_positive
from aide.adapters.posteriordb import list_names
from aide.estimation.errors.tolerance import AnyTolerance, as_tolerance
from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import MADE, Scorecard, read_scorecard
from aide.scorecard.facts import facts
from aide.scorecard.guard import guard
from aide.scorecard.pairs import MADE_SECONDS
from aide.scorecard.progress import Telling
from aide.scorecard.task import PosteriorTask, reason_of, write_json

TOLERANCE = "means 0.1 sd, sds 10%, probabilities 0.05"
"""What is good enough for a report, unless stated: see docs/explanation/how_many_nats.md."""
NUM_RUNS = 1000
"""Runs of either side per row, unless stated."""
ROW_SECONDS = 600.0
"""Seconds that one row may take, unless stated."""
PARTS_PER_WORKER = 4
"""Processes that each worker starts at least, where there are as many rows: a choice."""


@keywords("aide.scorecard.scorecard")
def scorecard(
    folder: str | Path,
    out: str | Path,
    *,
    only: str = "*",
    algorithms: Sequence[str] = (*ALGORITHMS, MADE),
    tolerance: AnyTolerance = TOLERANCE,
    num_runs: int = NUM_RUNS,
    max_seconds: float = MADE_SECONDS,
    max_row_seconds: float = ROW_SECONDS,
    seed: int = 0,
    num_workers: int = 1,
    executor: Executor | None = None,
    retry: bool = False,
    progress: bool | None = None,
) -> Scorecard:
    """Measure algorithms on all posteriors of posteriordb that have reference draws.

    Each row is a file in `out`, written when it is finished: a call that was stopped or killed goes
    on where it stopped. A row that fails, that ends its process or that takes too long is a row
    with the reason. Posteriors run in processes of their own, of which the others notice nothing.

    Args:
        folder: A copy of posteriordb's folder `posterior_database`.
        out: The folder of the card.
        only: Names of posteriors, with wildcards: `kidiq*`.
        algorithms: Names of `ALGORITHMS`; `gold standard` measures `aide.gold_standard` itself.
        tolerance: What is good enough: nats, or errors in words.
        num_runs: Runs of the reference draws and of the algorithm in each row.
        max_seconds: Seconds that making one gold standard may take.
        max_row_seconds: Seconds that one row may take, compilation and measuring included.
        seed: Seed of the card. A row depends on it and on its two names alone.
        num_workers: Processes at a time, on this machine. They share its cores evenly.
        executor: Any `concurrent.futures.Executor` instead, such as a Dask client's; its workers
            start the processes and need `folder` and `out` under the same names.
        retry: Run rows again that have a reason in place of a number.
        progress: Show progress: a bar at a terminal, a line per row elsewhere; by default the bar
            alone.
    """
    names, told = _names(Path(folder), only), as_tolerance(tolerance)
    wrong = [name for name in algorithms if name not in (*ALGORITHMS, MADE)]
    if wrong:
        known = ", ".join((*ALGORITHMS, MADE))
        raise ValueError(f"algorithms must be among {known}; got {', '.join(wrong)}.")
    check_count("num_runs", num_runs, 100)
    check_count("num_workers", num_workers)
    check_positive("max_seconds", max_seconds)
    check_positive("max_row_seconds", max_row_seconds)
    words = told if isinstance(told, float | int) else str(told)
    out = make_folder(Path(out).absolute())
    common = (seed, num_runs, words, max_seconds, max_row_seconds)
    place = str(Path(folder).absolute()), str(out)
    every = [PosteriorTask(*place, name, tuple(algorithms), *common) for name in names]
    with locked_folder(out):
        _check_same(out, every[0])
        _run_all(every, num_workers, executor, retry, progress)
    return read_scorecard(out)


def _names(folder: Path, only: str) -> list[str]:
    inner = folder / "posterior_database"
    if inner.is_dir():
        raise ValueError(f"{folder} is a checkout of posteriordb: pass its folder {inner}.")
    stored = set(list_names(folder))
    named = set(stored)
    for about in (folder / "posteriors").glob("*.json"):
        facts_of = json.loads(about.read_text())
        if facts_of.get("reference_posterior_name"):
            named.add(facts_of["name"])
    found = sorted(fnmatch.filter(named, only))
    if not found:
        raise ValueError(f"{folder} has no posterior with reference draws that fits {only!r}.")
    return found


def _check_same(out: Path, task: PosteriorTask) -> None:
    """Raise if the folder holds a card with other settings."""
    path = out / "card.json"
    if path.exists():
        before = json.loads(path.read_text())["settings"]
        other = [name for name, value in task.settings.items() if before.get(name) != value]
        if other:
            differences = ", ".join(
                f"{name} {before.get(name)!r} instead of {task.settings[name]!r}" for name in other
            )
            raise ValueError(
                f"{out} holds a card with other settings: {differences}. Choose another folder."
            )
        return
    write_json(path, {"settings": task.settings, **facts()})


def _run_all(
    tasks: list[PosteriorTask],
    num_workers: int,
    executor: Executor | None,
    retry: bool,
    progress: bool | None,
) -> None:
    """Run tasks, in processes of their own on this machine or where an executor starts them."""
    if retry:
        for task in tasks:
            task.forget_failures()
    todo = [task for task in tasks if task.missing]
    with Telling(todo, progress) as telling:
        if executor is not None:
            futures = {executor.submit(guard, task): task for task in todo}
            _wait(futures, telling.row)
        elif todo:
            parts = parts_of(todo, num_workers)
            _run_here(parts, min(num_workers, len(parts)), telling.row)


def parts_of(tasks: Sequence[PosteriorTask], num_workers: int) -> list[PosteriorTask]:
    """Divide the rows of posteriors among processes, so that few posteriors fill all workers.

    The last rows are the longest, and come first.
    """
    num = 1 if num_workers == 1 else math.ceil(PARTS_PER_WORKER * num_workers / len(tasks))
    parts = [
        (place, task._replace(algorithms=rows))
        for task in tasks
        for place, rows in enumerate(_divided(task.missing, num))
    ]
    return [task for _, task in sorted(parts, key=lambda part: -part[0])]


def _divided(rows: Sequence[Any], num: int) -> list[tuple[Any, ...]]:
    """Divide into parts of nearly equal length, none of them empty."""
    num = min(num, len(rows))
    ends = [len(rows) * place // num for place in range(num + 1)]
    return [tuple(rows[low:high]) for low, high in zip(ends[:-1], ends[1:], strict=True)]


def _wait(futures: dict[Future[None], PosteriorTask], tell: Callable[..., None]) -> None:
    """Wait for an executor; what ended with its worker is a row with the reason."""
    before = {task.name: task.missing for task in futures.values()}
    for future in as_completed(futures):
        task = futures[future]
        error = future.exception()
        if error is not None:
            for algorithm in task.missing:
                task.fail(algorithm, f"The worker of this posterior ended: {reason_of(error)}")
        for algorithm in before[task.name]:
            tell(task, algorithm)


def _run_here(
    tasks: list[PosteriorTask], num_workers: int, tell: Callable[[PosteriorTask, str], None]
) -> None:
    """Run one process per posterior, each with a share of the cores."""
    shares: SimpleQueue[tuple[int, ...]] = SimpleQueue()
    for share in shares_of(cores(), num_workers):
        shares.put(share)
    with _ended_by_interruption() as stop, ThreadPoolExecutor(num_workers) as threads:

        def run(task: PosteriorTask) -> None:
            share = shares.get()
            try:
                guard(task, cores=share, stop=stop, report=lambda name: tell(task, name))
            finally:
                shares.put(share)

        try:
            for future in [threads.submit(run, task) for task in tasks]:
                future.result()
        except BaseException:
            stop.set()
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use; none where nobody tells."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def shares_of(cores: Sequence[int], num_workers: int) -> list[tuple[int, ...]]:
    """Divide cores evenly among workers; where there are more workers, they take turns."""
    if len(cores) < num_workers:
        return [(cores[place % len(cores)],) if cores else () for place in range(num_workers)]
    return _divided(cores, num_workers)


@contextmanager
def _ended_by_interruption() -> Iterator[threading.Event]:
    """An event that ends all processes; an interruption says that finished rows are kept."""
    stop = threading.Event()
    try:
        yield stop
    except KeyboardInterrupt as error:
        raise type(error)("finished rows are kept") from None
    finally:
        stop.set()
