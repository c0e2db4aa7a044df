"""Sending objects to other processes: pickling rules, refusals, and one copy per worker."""

import copyreg
import pickle
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any
from uuid import uuid4

import equinox as eqx

from aide._core.process import Temporarily

FIX = (
    "Define its functions and classes at the top of a module that the workers can import (no "
    "lambda, no function inside a function), or use an executor that pickles by value "
    "(cloudpickle), such as that of Dask or loky."
)
WORKERS_ENDED = (
    "The workers of the executor ended. They must be able to import what the algorithms are made "
    "of (not from a notebook or the console), and JAX must not be forked: use "
    "multiprocessing.get_context('spawn') and guard the script by if __name__ == '__main__'."
)


class _Example(eqx.Module):
    def method(self) -> None:
        """Return nothing: the method's type is Equinox's own kind of bound method."""


def _pickle_methods_by_name() -> Callable[[], None]:
    """Change Python's table of pickling rules for methods of Equinox modules; returns the undo."""
    kind = type(_Example().method)
    before = copyreg.dispatch_table.pop(kind, None)
    copyreg.pickle(kind, _reduce_method)

    def undo() -> None:
        copyreg.dispatch_table.pop(kind)
        if before is not None:
            copyreg.dispatch_table[kind] = before

    return undo


pickled_bound_methods = Temporarily(_pickle_methods_by_name)
"""In such a block, methods of Equinox modules are pickled like Python's: by object and name.

By default their annotations are pickled too, and some types of JAX 0.10 cannot be."""


def _reduce_method(method: Any) -> Any:
    return getattr, (method.__self__, method.__func__.__name__)


def explain_refusal(name: str, thing: Any) -> str | None:
    """The reason why an object cannot be sent to another process; `None` if it can be."""
    error = _refusal(thing)
    if error is None:
        return None
    path, found = name, True
    while found:
        found = False
        for part, inner in _parts(thing):
            worse = _refusal(inner)
            if worse is not None:
                thing, path, error, found = inner, f"{path}{part}", worse, True
                break
    return f"{path} cannot be sent to another process ({error}). {FIX}"


def _refusal(thing: Any) -> str | None:
    try:
        pickle.dumps(thing)
    except Exception as error:  # whatever an object raises that cannot be pickled
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return None


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, list | tuple):
        yield from ((f"[{number}]", value) for number, value in enumerate(thing))
    elif hasattr(thing, "__self__"):
        yield ".__self__", thing.__self__
    elif not isinstance(thing, type) and not hasattr(thing, "__code__"):
        yield from ((f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items())


MOST_RECEIVED = 16
"""Largest number of objects that a worker stores, with the programs it compiled for them."""
_all_received: dict[str, "Sent"] = {}
_lock = Lock()


class Sent:
    """An object on its way to workers, which may store programs with the object.

    A worker that receives several copies uses the first one, which has the programs already.
    """

    def __init__(self, thing: Any, token: str | None = None):
        self.thing = thing
        self._token = uuid4().hex if token is None else token

    def __reduce__(self) -> Any:
        return _receive, (self.thing, self._token)


def _receive(thing: Any, token: str) -> Sent:
    """The first copy that this process received."""
    with _lock:
        while token not in _all_received and len(_all_received) >= MOST_RECEIVED:
            _all_received.pop(next(iter(_all_received)))
        return _all_received.setdefault(token, Sent(thing, token))
