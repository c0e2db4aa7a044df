"""Seconds of a row: how long fitting and measuring took, and how much of it was compilation."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax

COMPILES = "/jax/core/compile/"
"""Events of JAX that begin so last from the tracing of a program to its machine code."""


class Seconds(NamedTuple):
    """Seconds of one part of a row.

    Attributes:
        wall: Seconds by the clock on the wall.
        compilation: Those in which at least one program was traced or compiled.
        processor: Processor seconds of all threads of the process.
    """

    wall: float
    compilation: float
    processor: float


class Stopwatch:
    """Seconds of the part that is measured now; filled when the part ends."""

    def __init__(self) -> None:
        self.seconds = Seconds(0.0, 0.0, 0.0)


_spans: list[tuple[float, float]] = []
"""Begin and end of every event of compilation in this process."""
_is_listening = False


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Measure the seconds of a `with` block."""
    _listen()
    watch, first = Stopwatch(), len(_spans)
    begun, processor = time.perf_counter(), time.process_time()
    try:
        yield watch
    finally:
        ended = time.perf_counter()
        watch.seconds = Seconds(
            ended - begun,
            covered([(max(low, begun), high) for low, high in _spans[first:]]),
            time.process_time() - processor,
        )


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals: programs are compiled in several threads."""
    total, reached = 0.0, -float("inf")
    for low, high in sorted(spans):
        total += max(0.0, high - max(low, reached))
        reached = max(reached, high)
    return total


def _listen() -> None:
    """Let JAX report, from now on, every program that is traced or compiled."""
    global _is_listening
    if not _is_listening:
        jax.monitoring.register_event_duration_secs_listener(_note)
        _is_listening = True


def _note(event: str, duration_secs: float, **_: str | int) -> None:
    if event.startswith(COMPILES):
        now = time.perf_counter()
        _spans.append((now - duration_secs, now))
