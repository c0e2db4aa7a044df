"""This process: Ctrl-C and SIGTERM as one exception that ends the work in order; no forks."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived: code that handles Ctrl-C handles it, too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """The exit code that shells expect: 128 plus the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def cause(stop: KeyboardInterrupt) -> str:
    """The words in which a command says why it ended."""
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
        if before is not None:  # a handler that Python did not set cannot be set again
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
    """Whether this thread is the main one, the only one in which Python delivers signals."""
    return threading.current_thread() is threading.main_thread()


_owner: int | None = None


def check_not_forked() -> None:
    """Raise in a child of the process that called this first, before it computes anything.

    `fork` copies the memory of JAX but not its threads, for which the child then waits for ever.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
    if _owner != os.getpid():
        raise RuntimeError(
            f"this process ({os.getpid()}) was forked from one that has already run aide "
            f"({_owner}), where JAX would hang. Start it afresh instead: "
            "multiprocessing.get_context('spawn') or ProcessPoolExecutor(mp_context=...), joblib's "
            "loky; or fork before anything runs."
        )
