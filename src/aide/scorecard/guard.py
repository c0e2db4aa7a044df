"""A process per posterior, under guard: a row that kills it, or takes too long, costs one row."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from aide.scorecard.task import PosteriorTask, run_task

CHILD = (sys.executable, "-c", "from aide.scorecard.guard import main; main()")
"""The command of the process, which reads a task from its standard input."""
PATIENCE = 0.2
"""Seconds between two looks at the process."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the threads of linear algebra: one each, because runs already use all cores."""
LONGEST_REASON = 300
"""Characters of the last line of an error that a row keeps."""

Report = Callable[[str], None]


def guard(
    task: PosteriorTask,
    *,
    cores: Sequence[int] = (),
    stop: threading.Event | None = None,
    report: Report = lambda algorithm: None,
    command: Sequence[str] = CHILD,
) -> None:
    """Run the missing rows of a posterior in a process of its own, and start it again if it ends.

    The row at which the process ended, or which took longer than `task.max_row_seconds`, is
    written with the reason.

    Args:
        task: The rows.
        cores: The cores that the process may use; all if empty.
        stop: Ends the process when it is set.
        report: Called with the name of each finished row.
        command: The command of the process.
    """
    while (missing := task.missing) and not (stop and stop.is_set()):
        reason = _run_once(task, cores, stop or threading.Event(), report, command)
        if reason:
            at = task.missing[:1]
        else:  # an end without an error, and yet without the rows
            at = task.missing if task.missing == missing else ()
            reason = "The process of the posterior ended without a row."
        for algorithm in () if stop and stop.is_set() else at:
            task.fail(algorithm, reason)
            report(algorithm)


def _run_once(
    task: PosteriorTask,
    cores: Sequence[int],
    stop: threading.Event,
    report: Report,
    command: Sequence[str],
) -> str:
    """Run the process until it ends or must be ended; return why, or nothing if it is done."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=_environment(),
            start_new_session=True,  # Ctrl-C ends this process, which then ends the other
        )
        try:
            if cores and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(child.pid, cores)
            assert child.stdin is not None
            child.stdin.write((json.dumps(task._asdict()) + "\n").encode())
            child.stdin.flush()
            late = _watch(child, task, stop, report)
        except (BrokenPipeError, ProcessLookupError):  # it ended before it read the task
            late = ""
        finally:
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()
        return late or ("" if stop.is_set() else _end_of(child.returncode, errors))


def _watch(
    child: subprocess.Popen[bytes], task: PosteriorTask, stop: threading.Event, report: Report
) -> str:
    """Wait for the end of the process; return words if a row took too long."""
    missing, begun = task.missing, time.monotonic()
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
        left = task.missing
        for algorithm in missing:
            if algorithm not in left:
                report(algorithm)
                begun = time.monotonic()
        missing = left
        if child.returncode is not None or not missing:
            child.wait()
            return ""
        if time.monotonic() - begun > task.max_row_seconds:
            return (
                f"The row took longer than {task.max_row_seconds:g} seconds, the limit of one row."
            )
    return ""


def _environment() -> dict[str, str]:
    """Return the environment of the process, which imports what this process can."""
    path = os.pathsep.join(folder for folder in sys.path if folder)
    return {**os.environ, "PYTHONPATH": path, **dict.fromkeys(THREADS, "1")}


def _end_of(code: int, errors: IO[bytes]) -> str:
    """Return how the process ended in words; nothing if all was well."""
    if code == 0:
        return ""
    if code < 0:
        name = signal.Signals(-code).name
        memory = ", which the system sends when memory runs out" if name == "SIGKILL" else ""
        return f"The process of the row was ended by the signal {name}{memory}."
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    last = lines[-1][:LONGEST_REASON] if lines else "no message"
    return f"The process of the row ended with exit code {code}: {last}"


def _end_with_parent() -> None:
    """End this process when the one that started it has ended: then the input is closed."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Read a task, and run it."""
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    given["algorithms"] = tuple(given["algorithms"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run_task(PosteriorTask(**given))
    sys.stdout.flush()
    os._exit(0)  # threads of libraries do not delay the end
