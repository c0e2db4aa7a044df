"""A file that stores finished runs, and only ever grows."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from aide._core.process import Terminated, exit_code, in_main_thread, signals_delayed, terminable
from aide.engine.draws import Draws
from aide.engine.runs import NO_RUNS, Runs
from aide.engine.storage.dataset import dataset_of
from aide.engine.storage.files import exists, read_runs, write_dataset

SAVE_EVERY = 30.0
"""Seconds between two writes of a checkpoint (a choice); every end of a run writes one too."""


class Checkpoint:
    """The file of one call of `aide.draw`."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.header: Draws | None = None
        self.stored: tuple[Runs, Runs] = (NO_RUNS, NO_RUNS)
        if exists(self.path):
            self.header, self.stored = read_runs(self.path)
        self._written = None if self.header is None else _size(self.stored)
        self._last = time.monotonic()

    def save(self, header: Draws, sides: tuple[Runs, Runs]) -> None:
        """Write all runs, unless the file holds them; signals wait until the file is written."""
        if self._written == _size(sides):
            return
        with signals_delayed():
            write_dataset(dataset_of(header, sides), self.path)
        self._written, self._last = _size(sides), time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the last write is more than `SAVE_EVERY` ago."""
        return time.monotonic() - self._last > SAVE_EVERY

    @contextmanager
    def saved_at_the_end(self, save: Callable[[], None]) -> Iterator[None]:
        """Save after the work, also after Ctrl-C, SIGTERM or an error; then say how to continue.

        SIGTERM ends the program with exit code 143, unless the program handles the signal itself.
        """
        how = f"What was finished is kept in {self.path}; the same call continues there."
        unhandled = in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with terminable() if unhandled else nullcontext():
            try:
                yield
            except BaseException as error:
                save()
                error.add_note(how)
                if unhandled and isinstance(error, Terminated):
                    print(how, file=sys.stderr)
                    raise SystemExit(exit_code(error)) from error
                raise
            save()


def _size(sides: tuple[Runs, Runs]) -> tuple[tuple[int, ...], ...]:
    return sides[0].size, sides[1].size
