"""Ctrl-C and SIGTERM as one thing: an exception that ends the work in order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: whatever is done on Ctrl-C is done on it, too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """What shells expect: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def cause(stop: KeyboardInterrupt) -> str:
    """What the user reads."""
    return "stopped by SIGTERM" if isinstance(stop, Terminated) else "stopped by Ctrl-C"


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, which otherwise ends the process on the spot.

    Works in the main thread, where signals arrive.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the end: inside of HDF5 they would leave it undefined."""
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler is not None}
    if not in_main_thread():
        before = {}
    for number in before:
        signal.signal(number, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def in_main_thread() -> bool:
    """Whether signals arrive here."""
    return threading.current_thread() is threading.main_thread()
