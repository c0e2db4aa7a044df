"""One call of ours: code is traced anew for every call, and once within it.

JAX keeps what it traced of a user's functions (loop bodies, jitted functions) by the function
alone, whatever the function reads from its surroundings. A context of our own
(`jax.make_user_context`) has another value in every call, so that JAX traces them again, and the
user's own caches stay what they are.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, TypeVar

import jax

T = TypeVar("T")

_number_of_call = jax.make_user_context(None)
_numbers = itertools.count(1)


class Call:
    """What one call has traced.

    Attributes:
        number: Another one for every call in this process.
        epoch: How often code of the user's ran in between that may have changed something, such as
            the function that builds the algorithm of a setting.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.epoch = 0
        self._found: dict[Hashable, Any] = {}
        self._uses: dict[Hashable, tuple[int, int]] = {}
        self._alive: list[Any] = []
        self._lock = RLock()

    def once(
        self, name: Hashable, make: Callable[[], T], word: Callable[[T], str], keep_alive: Any
    ) -> T:
        """What `make` returned under this name earlier in the call, or returns now.

        Names may hold addresses of parts of `keep_alive`, which lives as long as the call.

        Where the user's code ran in between, it is made again at the 1st, 2nd, 4th, 8th, … use and
        compared with the earlier one.

        Raises:
            RuntimeError: The two differ in `word`.
        """
        with self._lock:
            if name not in self._found:
                self._found[name], self._uses[name] = make(), (0, self.epoch)
                self._alive.append(keep_alive)
                return self._found[name]
            uses, epoch = self._uses[name]
            found: T = self._found[name]
            if epoch == self.epoch:
                return found
            uses += 1
            self._uses[name] = uses, self.epoch
            if uses & (uses - 1) == 0 and word(make()) != word(found):
                raise RuntimeError(
                    "the same function computed something else when it was looked at again: what "
                    "it reads (a global variable, an attribute, a file) changed while this call "
                    "ran. Make everything that differs between settings an argument of the "
                    "algorithm, for example a field of an equinox.Module or a new function for "
                    "every setting."
                )
            return found


_current: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[Call]:
    """Everything in this block is one call; a call inside a call belongs to the outer one.

    As a decorator, `@one_call()`, it makes a function one call.
    """
    call = _current.get()
    if call is not None:
        yield call
        return
    call = Call()
    token = _current.set(call)
    try:
        yield call
    finally:
        _current.reset(token)


def current_call() -> int:
    """The number of the call that is going on; 0 outside of any."""
    call = _current.get()
    return 0 if call is None else call.number


def users_code_ran() -> None:
    """Say that a function of the user's ran, after which others may compute something else."""
    call = _current.get()
    if call is not None:
        call.epoch += 1


@contextmanager
def tracing(call: Call) -> Iterator[None]:
    """Trace in this block, and use nothing that JAX traced outside of the call."""
    with _number_of_call(call.number):
        yield
