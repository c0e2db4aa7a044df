"""`aide reproduce` with an experiment of twelve quick jobs, and a process that runs it in forks.

As a program, `tiny_experiment.py MOMENTS ARGUMENTS`: import once, then fork for each moment (in
seconds, between commas), run `aide reproduce ARGUMENTS` in the child, and kill it at that moment.
The last child lives, and its exit code is the program's.
"""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any

from aide.experiments import command
from aide.experiments.results import Row, new_figure
from aide.experiments.runner import Experiment, Job, Options, read_column, source_of


def tiny(options: Options, pause: float = 0.004) -> Experiment:
    """Results are noise that depends on seed, data and setting."""
    data = None if options.data is None else source_of(options.data, read_column(options.data))
    digest = "" if data is None else data["sha256"]
    rows = [Row("tiny", "none", num_particles=count) for count in range(1, 13)]
    jobs = [Job((row,), partial(_measure, options.seed, digest, pause, row), 1.0) for row in rows]
    return Experiment("tiny", jobs, _figure, {"num_runs": options.num_runs}, data)


def _measure(seed: int, digest: str, pause: float, row: Row) -> Sequence[Row]:
    time.sleep(pause)
    noise = hashlib.sha256(repr((seed, digest, row.setting)).encode()).digest()
    return [replace(row, value=int.from_bytes(noise[:6]) / 7, std_error=0.1)]


def _figure(rows: list[Row]) -> Any:
    figure, axis = new_figure(1, 1, (2, 2))
    axis.plot([row.value for row in rows])
    return figure


def _run_in_fork(arguments: Sequence[str]) -> int:
    from aide.cli import app

    child = os.fork()
    if child == 0:
        sys.argv = ["aide", "reproduce", *arguments]
        code = 99
        try:
            app()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            os._exit(code)
    return child


def _main(moments: str, *arguments: str) -> int:
    command.EXPERIMENTS["tiny"] = tiny
    _figure([]).savefig(BytesIO(), format="png")  # what the first figure loads is loaded once
    for moment in map(float, moments.split(",")):
        child = _run_in_fork(arguments)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(os.waitpid(_run_in_fork(arguments), 0)[1])


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
