"""Sending algorithms to other processes: what can be pickled, and which part cannot."""

import copyreg
import functools
import pickle
from collections.abc import Iterator
from typing import Any

import equinox as eqx

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
        """Bound to an instance, an object of Equinox's own kind."""


@functools.cache
def pickle_bound_methods() -> None:
    """Pickle methods of Equinox modules as Python does its own: by object and name.

    By default their annotations are pickled too, and some types of JAX 0.10 cannot be.
    """
    copyreg.pickle(type(_Example().method), _reduce_method)


def _reduce_method(method: Any) -> Any:
    return getattr, (method.__self__, method.__func__.__name__)


def explain_refusal(name: str, thing: Any) -> str | None:
    """Why an object cannot be sent to another process, in words; `None` if it can be."""
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
