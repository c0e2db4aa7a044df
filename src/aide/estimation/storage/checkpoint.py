"""A file that keeps what was finished, and only ever grows."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aide.estimation.draws import Draws
from aide.estimation.storage.files import exists, read_kept, save_kept
from aide.estimation.storage.kept import Kept, nothing

SAVE_EVERY = 30.0
"""Seconds between two writes of a checkpoint; the end of a run, good or bad, writes one too."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Checkpoint:
    """The file of one call of `aide.draw`."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.header: Draws | None = None
        self.stored: tuple[Kept, Kept] = (nothing(), nothing())
        if exists(self.path):
            self.header, self.stored = read_kept(self.path)
        self._written: Any = None if self.header is None else _size(self.stored)
        self._last = time.monotonic()

    def save(self, header: Draws, sides: tuple[Kept, Kept]) -> None:
        """Write, unless the file holds all of it already; a signal waits until it is done."""
        if self._written == _size(sides):
            return
        with _signals_wait():
            save_kept(header, sides, self.path)
        self._written, self._last = _size(sides), time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the last write is long ago."""
        return time.monotonic() - self._last > SAVE_EVERY

    @contextmanager
    def saved_at_the_end(self, save: Callable[[], None]) -> Iterator[None]:
        """Save after the work, also if Ctrl-C, SIGTERM or an error ends it; then say how to go on.

        SIGTERM becomes `SystemExit(143)`, unless the program handles it itself.
        """
        how = f"What was finished is kept in {self.path}; the same call continues there."
        with _termination_raises():
            try:
                yield
            except BaseException as error:
                save()
                error.add_note(how)
                if isinstance(error, SystemExit):
                    print(how, file=sys.stderr)
                raise
            save()


def _size(sides: tuple[Kept, Kept]) -> Any:
    return sides[0].size, sides[1].size


@contextmanager
def _termination_raises() -> Iterator[None]:
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back: inside HDF5 they would leave it in an undefined state."""
    if not _in_main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in before.items() if handler is not None}
    for number in before:
        signal.signal(number, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
