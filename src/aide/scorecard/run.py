"""Running the card: one process per posterior, one file per row, nothing finished is run again."""

import fnmatch
import json
import multiprocessing
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from aide._core.keywords import keywords
from aide._core.process import make_folder, write_atomically
from aide._core.validate import check_count, check_positive
from aide._version import __version__
from aide.adapters.posteriordb import list_names
from aide.engine.programs.map_runs import Progress
from aide.estimation.errors.tolerance import AnyTolerance, as_tolerance
from aide.reporting.result import as_data
from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import MADE, Scorecard, read_scorecard
from aide.scorecard.pairs import MADE_SECONDS, CannotRun, load_case, made_row, row_of

TOLERANCE = "means 0.1 sd, sds 10%, probabilities 0.05"
"""What is good enough for a report, unless stated: see docs/explanation/how_many_nats.md."""
NUM_RUNS = 1000
"""Runs of either side per row, unless stated."""


class PosteriorTask(NamedTuple):
    """All rows of one posterior, for a process of its own.

    Attributes:
        folder: The copy of the database.
        out: Where rows are written.
        name: `DATA-MODEL`.
        algorithms: Names of algorithms, and `MADE` for the gold standard.
        seed: Seed of the card.
        num_runs: Runs of either side.
        tolerance: What is good enough, in words or nats.
        max_seconds: Seconds that making the gold standard may take.
    """

    folder: str
    out: str
    name: str
    algorithms: tuple[str, ...]
    seed: int
    num_runs: int
    tolerance: str | float
    max_seconds: float

    def file(self, algorithm: str) -> Path:
        """Return where a row of this posterior is."""
        plain = "".join(c if c.isalnum() else "-" for c in algorithm)
        return Path(self.out) / self.name / f"{plain}.json"

    @property
    def missing(self) -> tuple[str, ...]:
        """Algorithms without a row yet."""
        return tuple(each for each in self.algorithms if not self.file(each).exists())


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
    seed: int = 0,
    num_workers: int = 1,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Scorecard:
    """Measure algorithms on all posteriors of posteriordb that have reference draws.

    Each row is a file in `out`, written when it is finished: a call that was stopped goes on where
    it stopped. A row that fails is a row with the reason. Each posterior has a process of its own,
    so that even a process that dies costs only the rows of its posterior.

    Args:
        folder: A copy of posteriordb's folder `posterior_database`.
        out: The folder of the card.
        only: Names of posteriors, with wildcards: `kidiq*`.
        algorithms: Names of `ALGORITHMS`; `gold standard` measures `aide.gold_standard` itself.
        tolerance: What is good enough: nats, or errors in words.
        num_runs: Runs of the reference draws and of the algorithm in each row.
        max_seconds: Seconds that making one gold standard may take.
        seed: Seed of the card. A row depends on it and on its two names alone.
        num_workers: Processes at a time, on this machine.
        executor: Any `concurrent.futures.Executor` instead, such as a Dask client's.
        progress: Show a progress bar; by default if a person watches.
    """
    names, told = _names(Path(folder), only), as_tolerance(tolerance)
    wrong = [name for name in algorithms if name not in (*ALGORITHMS, MADE)]
    if wrong:
        known = ", ".join((*ALGORITHMS, MADE))
        raise ValueError(f"algorithms must be among {known}; got {', '.join(wrong)}.")
    check_count("num_runs", num_runs, 100)
    check_count("num_workers", num_workers)
    check_positive("max_seconds", max_seconds)
    words = told if isinstance(told, float | int) else str(told)
    make_folder(Path(out))
    every = [
        PosteriorTask(
            str(folder), str(out), n, tuple(algorithms), seed, num_runs, words, max_seconds
        )
        for n in names
    ]
    _check_same(Path(out), every[0])
    _run_all([task for task in every if task.missing], num_workers, executor, progress)
    return read_scorecard(out)


def run_task(task: PosteriorTask) -> None:
    """Run all missing rows of one posterior and write each to its file."""
    begun = _facts(task)
    try:
        case = load_case(Path(task.folder), task.name)
    except CannotRun as error:
        _fail(task, str(error))
        return
    chains = case.reference
    shared = {
        **begun,
        "dimension": case.posterior.dimension,
        "reference_ess": chains.effective_size,
        "reference_rhat": chains.rhat,
    }
    for algorithm in task.missing:
        try:
            found = (
                made_row(case, task.seed, task.num_runs, task.max_seconds)
                if algorithm == MADE
                else row_of(case, algorithm, task.seed, task.num_runs, task.tolerance)
            )
        except Exception as error:  # a row that fails is a row with its reason
            found = {"reason": _reason(error)}
        _write(task.file(algorithm), {**shared, "algorithm": algorithm, **found})


def _names(folder: Path, only: str) -> list[str]:
    inner = folder / "posterior_database"
    if inner.is_dir():
        raise ValueError(f"{folder} is a checkout of posteriordb: pass its folder {inner}.")
    stored = set(list_names(folder))
    named = set(stored)
    for about in (folder / "posteriors").glob("*.json"):
        facts = json.loads(about.read_text())
        if facts.get("reference_posterior_name"):
            named.add(facts["name"])
    found = sorted(fnmatch.filter(named, only))
    if not found:
        raise ValueError(f"{folder} has no posterior with reference draws that fits {only!r}.")
    return found


def _check_same(out: Path, task: PosteriorTask) -> None:
    """Raise if the folder holds a card with other settings."""
    settings = as_data(task._replace(folder="", out="", name="", algorithms=())._asdict())
    path = out / "card.json"
    if path.exists() and json.loads(path.read_text())["settings"] != settings:
        raise ValueError(f"{out} holds a card with other settings. Choose another folder.")
    _write(path, {"settings": settings, **_facts(task)})


def _run_all(
    tasks: list[PosteriorTask], num_workers: int, executor: Executor | None, progress: bool | None
) -> None:
    """Run tasks, in processes of their own unless an executor is given."""
    with Progress(["posteriors"], [len(tasks)], progress) as bars:
        report = bars.reporter(0)
        if executor is not None:
            _wait(tasks, [executor.submit(run_task, task) for task in tasks], report)
            return
        with ThreadPoolExecutor(num_workers) as threads:
            _wait(tasks, [threads.submit(_in_own_process, task) for task in tasks], report)


def _wait(
    tasks: Iterable[PosteriorTask], futures: list[Future[None]], report: Callable[[int], Any]
) -> None:
    for task, future in zip(tasks, futures, strict=True):
        try:
            future.result()
        except (BrokenProcessPool, RuntimeError, OSError) as error:
            _fail(task, f"The process that ran this posterior ended: {_reason(error)}")
        report(1)


def _in_own_process(task: PosteriorTask) -> None:
    """Run one posterior in a fresh process, whose memory goes with it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(run_task, task).result()


def _fail(task: PosteriorTask, reason: str) -> None:
    for algorithm in task.missing:
        row = {**_facts(task), "algorithm": algorithm, "reason": reason}
        _write(task.file(algorithm), row)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _facts(task: PosteriorTask) -> dict[str, Any]:
    """Return what a row says of its circumstances."""
    return {
        "posterior": task.name,
        "seed": task.seed,
        "num_runs": task.num_runs,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of everything that numbers of the card depend on."""
    return {
        "python": platform.python_version(),
        "aide": __version__,
        "commit": _commit(),
        **{name: version(name) for name in ("jax", "numpyro", "blackjax", "numpy")},
    }


def _commit() -> str | None:
    """Return the commit of a checkout of this package; `None` where it is installed."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _write(path: Path, data: dict[str, Any]) -> None:
    make_folder(path.parent)
    text = json.dumps(as_data(data), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())
