"""Processes of the card: rows that hang or kill, a call that is killed, and how it goes on."""

import json
import os
import sys
import threading
import time
from pathlib import Path

from aide.scorecard.clock import covered, stopwatch
from aide.scorecard.guard import guard
from aide.scorecard.task import PosteriorTask

WORKER = """
import json, os, signal, sys, time
from pathlib import Path
task = json.loads(sys.stdin.readline())
for name in task["algorithms"]:
    path = Path(task["out"]) / task["name"] / f"{name}.json"
    if path.exists():
        continue
    if name == "hangs":
        time.sleep(60)
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "broken":
        sys.exit("no such thing")
    if name == "nothing":
        sys.exit(0)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"value": 1.0, "threads": os.environ["OMP_NUM_THREADS"]}))
"""
COMMAND = (sys.executable, "-c", WORKER)


def task_of(out: Path, *algorithms: str, max_row_seconds: float = 1.0) -> PosteriorTask:
    return PosteriorTask("", str(out), "data-model", algorithms, 0, 100, 1.0, 1.0, max_row_seconds)


def rows_of(task: PosteriorTask) -> dict[str, dict[str, str]]:
    return {name: json.loads(task.file(name).read_text()) for name in task.algorithms}


def test_a_row_that_hangs_or_kills_costs_one_row(tmp_path):
    task = task_of(tmp_path, "good", "hangs", "killed", "broken", "fine")
    told: list[str] = []
    guard(task, cores=[min(os.sched_getaffinity(0))], report=told.append, command=COMMAND)
    rows = rows_of(task)
    assert rows["good"]["value"] == rows["fine"]["value"] == 1.0
    assert rows["good"]["threads"] == "1"
    assert rows["hangs"]["reason"].startswith("The row took longer than 1 seconds")
    assert "signal SIGKILL, which the system sends when memory" in rows["killed"]["reason"]
    assert rows["broken"]["reason"].endswith("exit code 1: no such thing")
    assert told == list(task.algorithms)


def test_an_end_without_rows_is_no_endless_loop(tmp_path):
    task = task_of(tmp_path, "nothing", "good")
    guard(task, command=COMMAND)
    assert "ended without a row" in rows_of(task)["good"]["reason"]


def test_a_stopped_guard_writes_nothing(tmp_path):
    task, stop = task_of(tmp_path, "hangs", max_row_seconds=60.0), threading.Event()
    threading.Timer(0.5, stop.set).start()
    guard(task, stop=stop, command=COMMAND)
    assert task.missing == ("hangs",)


def test_compilation_in_several_threads_counts_once():
    assert covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.5)]) == 4.0
    assert covered([]) == 0.0


def test_a_stopwatch_tells_compilation_apart():
    import jax

    with stopwatch() as compiling:
        jax.jit(lambda x: x * 3.25 + 1.0)(2.0)
    with stopwatch() as sleeping:
        time.sleep(0.05)
    assert 0 < compiling.seconds.compilation <= compiling.seconds.wall
    assert sleeping.seconds.compilation == 0.0
    assert sleeping.seconds.wall >= 0.05
