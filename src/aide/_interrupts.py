"""Ctrl-C and SIGTERM as one thing: an exception that ends the work in order."""

import signal
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
