"""Jobs of a batch system as an executor: a few jobs, each of which runs one task after another.

A batch system takes seconds or hours to start a job, and a call has hundreds of small tasks. So
tasks and results are files in a folder that all machines share, and a job takes the next task until
the executor is closed. A task that a job claimed when it was lost goes back to the others.
"""

import importlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol
from uuid import uuid4

from aide._core.process import make_folder, write_atomically
from aide._core.validate import check_count

POLL = 0.05
"""Seconds between two looks into the folder: a choice."""
BEAT = 10.0
"""Seconds after which the executor says again that it is there."""
PATIENCE = 300.0
"""Seconds without such a word after which a job ends: nobody waits for its work any more."""
MOST_LOST = 3
"""Jobs that may be lost for every job that was asked for, before all is given up: a choice."""


class BatchJob(Protocol):
    """A job that was started."""

    def done(self) -> bool:
        """Whether the job has ended."""
        ...


class BatchSystem(Protocol):
    """Starts jobs, such as `submitit.AutoExecutor`."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> BatchJob:
        """Start a job that calls a function."""
        ...


class Jobs(Executor):
    """Jobs of a batch system as an executor: `aide.estimate(..., executor=jobs)`.

    Args:
        system: Starts jobs, such as `submitit.AutoExecutor(folder="jobs")`.
        num_jobs: Number of jobs; one that is lost is started again.
        folder: An existing or new folder that this machine and those of the jobs share. Whoever can
            write there can run code as you.

    Example:
        >>> import concurrent.futures, tempfile
        >>> system = concurrent.futures.ThreadPoolExecutor(2)  # or submitit.AutoExecutor("logs")
        >>> with aide.engine.Jobs(system, 2, tempfile.mkdtemp()) as jobs:
        ...     jobs.submit(max, 1, 3).result()
        3
    """

    def __init__(self, system: BatchSystem, num_jobs: int, folder: str | Path):
        check_count("num_jobs", num_jobs)
        self._system, self._folder = system, make_folder(Path(folder).absolute() / uuid4().hex)
        for name in ("tasks", "claimed", "results"):
            make_folder(self._folder / name)
        self._pickler = _pickler()
        self._lock, self._closed = Lock(), Event()
        self._futures: dict[int, Future[Any]] = {}
        self._num_tasks, self._num_lost, self._most_lost = 0, 0, MOST_LOST * num_jobs
        self._jobs: dict[str, BatchJob] = {}
        self._beat()
        for _ in range(num_jobs):
            self._start()
        self._thread = Thread(target=self._watch, name="aide-jobs", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Write a task for the next job that is free."""
        content = self._pickler.dumps((fn, args, kwargs))
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("these jobs were shut down: make new ones.")
            number, self._num_tasks = self._num_tasks, self._num_tasks + 1
            self._futures[number] = future = Future()
        write_atomically(self._folder / "tasks" / _name(number), content)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the jobs, after all tasks unless they are cancelled."""
        with self._lock:
            waiting = list(self._futures.values())
        for future in waiting if cancel_futures else ():
            future.cancel()
        while wait and not cancel_futures and any(not future.done() for future in waiting):
            time.sleep(POLL)
        self._closed.set()
        (self._folder / "stop").touch()
        if wait:
            self._thread.join()
            while not all(job.done() for job in self._jobs.values()):
                time.sleep(POLL)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        name = uuid4().hex
        self._jobs[name] = self._system.submit(serve, str(self._folder), name, list(sys.path))

    def _beat(self) -> None:
        write_atomically(self._folder / "beat", str(time.time()).encode())
        self._last_beat = time.monotonic()

    def _watch(self) -> None:
        """Take results, and start jobs in the place of lost ones, until the executor is closed."""
        while not self._closed.wait(POLL):
            try:
                self._take_results()
                self._replace_lost()
                if time.monotonic() - self._last_beat > BEAT:
                    self._beat()
            except Exception as error:  # of the file system or the batch system
                self._give_up(error)
        self._take_results()

    def _take_results(self) -> None:
        for path in sorted((self._folder / "results").glob("*.pickle")):
            number, content = int(path.stem), path.read_bytes()
            path.unlink()
            with self._lock:
                future = self._futures.pop(number, None)
            if future is not None and future.set_running_or_notify_cancel():
                done, found = pickle.loads(content)
                (future.set_result if done else future.set_exception)(found)
        with self._lock:
            dropped = [number for number, one in self._futures.items() if one.cancelled()]
            for number in dropped:
                del self._futures[number]
        for number in dropped:
            (self._folder / "tasks" / _name(number)).unlink(missing_ok=True)

    def _replace_lost(self) -> None:
        for name in [name for name, job in self._jobs.items() if job.done()]:
            del self._jobs[name]
            self._num_lost += 1
            for path in (self._folder / "claimed").glob(f"*.{name}"):
                path.rename(self._folder / "tasks" / path.name.removesuffix(f".{name}"))
            if self._num_lost > self._most_lost:
                raise BrokenExecutor(f"{self._num_lost} jobs ended before their work was done.")
            self._start()

    def _give_up(self, error: Exception) -> None:
        broken = error if isinstance(error, BrokenExecutor) else BrokenExecutor(str(error))
        self._closed.set()
        with self._lock:
            waiting, self._futures = list(self._futures.values()), {}
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(broken)
        (self._folder / "stop").touch()


def serve(folder: str, name: str, path: list[str]) -> None:
    """Run tasks of a folder, as a job: one after another until the folder says stop."""
    sys.path += [one for one in path if one not in sys.path]
    place, pickler = Path(folder), _pickler()
    beat, heard = b"", time.monotonic()
    while not (place / "stop").exists() and time.monotonic() - heard < PATIENCE:
        claimed = _claim(place, name)
        if claimed is None:
            time.sleep(POLL)
        else:
            number = int(claimed.name.split(".")[0])
            content = _run(claimed, pickler)
            write_atomically(place / "results" / _name(number), content)
            claimed.unlink(missing_ok=True)
        now = _content(place / "beat")
        if now != beat:
            beat, heard = now, time.monotonic()


def _claim(place: Path, name: str) -> Path | None:
    """Take the first task that no other job has taken."""
    for path in sorted((place / "tasks").glob("*.pickle")):
        claimed = place / "claimed" / f"{path.name}.{name}"
        try:
            os.rename(path, claimed)
        except FileNotFoundError:  # another job was faster
            continue
        return claimed
    return None


def _run(path: Path, pickler: Any) -> bytes:
    """The pickled result of a task: whether it ended well, and what it returned or raised."""
    try:
        function, arguments, keywords = pickle.loads(path.read_bytes())
        return pickler.dumps((True, function(*arguments, **keywords)))
    except Exception as error:  # whatever the task raises belongs to the caller
        try:
            content = pickler.dumps((False, error))
            pickle.loads(content)
        except Exception:
            content = pickler.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return content


def _name(number: int) -> str:
    return f"{number:08d}.pickle"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _pickler() -> Any:
    """`cloudpickle`, which submitit and Dask bring, or else `pickle`."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle
