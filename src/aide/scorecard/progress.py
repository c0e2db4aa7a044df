"""Progress of the card: a bar at a terminal, a line per finished row elsewhere."""

import json
import sys
import threading
import time
from collections.abc import Sequence

from aide.engine.programs.map_runs import Progress
from aide.reporting.numbers import short
from aide.scorecard.task import PosteriorTask


class Telling:
    """Tells a person which rows are finished. Any thread may report a row.

    Args:
        tasks: What will be run.
        show: See `scorecard`.
    """

    def __init__(self, tasks: Sequence[PosteriorTask], show: bool | None):
        self.total = sum(len(task.missing) for task in tasks)
        self.done = 0
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._lines = bool(show) and not sys.stderr.isatty()
        self._bars = Progress(["rows"], [self.total], None if not self._lines else False)
        if show is False:
            self._bars.show = False
        self._report = self._bars.reporter(0)

    def __enter__(self) -> "Telling":
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.__exit__()

    def row(self, task: PosteriorTask, algorithm: str) -> None:
        """Tell that a row is finished."""
        with self._lock:
            self.done += 1
            self._report(1)
            if self._lines:
                minutes = (time.monotonic() - self._begun) / 60
                words = words_of(json.loads(task.file(algorithm).read_text()))
                head = f"{self.done}/{self.total}, {minutes:.1f} min: {task.name}, {algorithm}"
                print(f"{head}: {words}", file=sys.stderr, flush=True)


def words_of(row: dict[str, object]) -> str:
    """Return a row in a few words."""
    if "reason" in row:
        return str(row["reason"])
    value, seconds = (float(str(row[name])) for name in ("value", "seconds_processor"))
    return f"{short(value, 2)} nats, {row['verdict']}, {seconds:.0f} processor seconds"
