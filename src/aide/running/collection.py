"""Python's garbage collector, which waits while programs are traced.

Tracing makes hundreds of thousands of small objects that stay alive until it ends: the collector
looks at all of them again and again and finds nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_waiting: list[bool] = []
"""One entry per block that is open, in any thread: whether the collector was on before it."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause it for this block; when the last open block ends, it is on if it was on before."""
    with _lock:
        _waiting.append(gc.isenabled() if not _waiting else _waiting[0])
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            if _waiting.pop() and not _waiting:
                gc.enable()
