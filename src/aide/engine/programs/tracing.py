"""Calls: code is traced anew for every call of a function of aide, and once within the call.

JAX stores traced functions of the user (loop bodies, jitted functions) under the function alone,
although the function may read variables that change. A context variable (`jax_compat.user_context`)
has another value in every call, so that JAX traces them again; the user's own caches stay.
"""

import functools
import gc
import itertools
import types
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import RLock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import WITHOUT_EFFECT
from aide._core.jax_compat import user_context
from aide._core.process import Temporarily

_number_of_call = user_context()
_numbers = itertools.count(1)


class Call:
    """The traced programs of one call, and resources that end with the call.

    Attributes:
        number: A number that no other call in this process has.
        epoch: Number of times that the user's code ran during the call and may have changed
            something, such as the function that builds the algorithm of a setting.
        lock: Held while a program is traced: one thread traces at a time.
        ending: Closes resources when the call ends.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.epoch = 0
        self.lock = RLock()
        self.ending = ExitStack()
        self._found: dict[Hashable, _Traced] = {}
        self._opened: dict[Hashable, Any] = {}

    def known(self, name: Hashable) -> Any:
        """The program traced under this name earlier in the call; `None` if it must be traced.

        After the user's code ran, a program is traced again at its 1st, 2nd, 4th, 8th, … use, and
        `keep` compares both programs.
        """
        found = self._found.get(name)
        if found is None or found.epoch == self.epoch:
            return None if found is None else found.program
        found.uses, found.epoch = found.uses + 1, self.epoch
        return None if found.uses & (found.uses - 1) == 0 else found.program

    def keep(self, name: Hashable, program: Any, word: str, keep_alive: Any) -> Any:
        """Store a program under a name; return the first program of this name.

        Args:
            name: A name that may hold addresses of parts of `keep_alive`, which lives as long as
                the call.
            program: The traced program.
            word: The digest of the program.
            keep_alive: The object from which the program was traced.

        Raises:
            RuntimeError: The first program of this name has another digest.
        """
        found = self._found.setdefault(name, _Traced(program, word, keep_alive, self.epoch))
        if found.word != word:
            raise RuntimeError(
                "the same function computed something else when it was traced again: a value that "
                "it reads (a global variable, an attribute, a file) changed while this call "
                "ran. Make everything that differs between settings an argument of the "
                "algorithm, for example a field of an equinox.Module or a new function for "
                "every setting."
            )
        return found.program

    def kept_open(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Enter a context manager once in this call, and leave it when the call ends."""
        with self.lock:
            if name not in self._opened:
                self._opened[name] = self.ending.enter_context(make())
            return self._opened[name]


@dataclass
class _Traced:
    """A program of a call, its digest, and its number of uses after user code ran."""

    program: Any
    word: str
    keep_alive: Any
    epoch: int
    uses: int = 0


_current: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[Call]:
    """Make this block one call; a call inside a call belongs to the outer one.

    As a decorator, `@one_call()` makes a function one call.
    """
    call = _current.get()
    if call is not None:
        yield call
        return
    call = Call()
    token = _current.set(call)
    try:
        with call.ending:
            yield call
    finally:
        _current.reset(token)


def current_call() -> int:
    """The number of the current call; 0 outside of calls."""
    call = _current.get()
    return 0 if call is None else call.number


def users_code_ran() -> None:
    """Record that the user's code ran, after which functions may compute something else."""
    call = _current.get()
    if call is not None:
        call.epoch += 1


@contextmanager
def tracing(call: Call) -> Iterator[None]:
    """Trace in this block, without reusing functions that JAX traced outside of the call."""
    with _number_of_call(call.number):
        yield


def _pause_collection() -> Callable[[], None]:
    """Turn the garbage collector off; return the function that restores its state."""
    was_on = gc.isenabled()
    gc.disable()
    return gc.enable if was_on else lambda: None


without_collection = Temporarily(_pause_collection)
"""Python's garbage collector is off in such a block, while programs are traced.

Tracing makes hundreds of thousands of small objects that stay alive until its end: the collector
would visit all of them again and again and free nothing."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
"""Types of settings that count by value."""


@dataclass(frozen=True)
class AlgorithmStructure:
    """An algorithm without its arrays: the tree, which leaves are traced, and the other leaves."""

    tree: Any
    traced: tuple[bool, ...]
    static: tuple[Any, ...]

    def join(self, arrays: list[Any]) -> Any:
        """The algorithm with these arrays."""
        remaining, others = iter(arrays), iter(self.static)
        leaves = [next(remaining) if traced else next(others) for traced in self.traced]
        return jax.tree.unflatten(self.tree, leaves)

    def name(self) -> Hashable:
        """A name that two structures share only if they surely compute the same now.

        Plain numbers and texts count by value, containers by their content, and everything else by
        its place in memory: objects that merely claim to be equal get different names.
        """
        return _name_of_tree(self.tree), self.traced, tuple(_name(leaf) for leaf in self.static)


def split_algorithm(algorithm: Any) -> tuple[AlgorithmStructure, list[Any]]:
    """The structure of an algorithm, and its arrays and floats in double precision."""
    leaves, tree = jax.tree.flatten(algorithm)
    traced = tuple(eqx.is_array(leaf) or isinstance(leaf, float) for leaf in leaves)
    arrays = [_promote(leaf) for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    static = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if not is_traced]
    return AlgorithmStructure(tree, traced, tuple(static)), arrays


def _name_of_tree(tree: Any) -> Hashable:
    node = tree.node_data()
    if node is None:
        return tree.num_leaves  # a leaf, or None
    kind, auxiliary = node
    children = tuple(_name_of_tree(child) for child in tree.children())
    return kind, _name(auxiliary), children


def _name(thing: Any) -> Hashable:
    kind = type(thing)
    if kind in WITHOUT_EFFECT:
        return kind
    if kind in _PLAIN:
        return kind, thing
    if isinstance(thing, np.dtype | type):
        return thing
    if kind in (tuple, list) or (isinstance(thing, tuple) and hasattr(kind, "_fields")):
        return kind, tuple(_name(item) for item in thing)
    if kind is dict:
        return kind, tuple((_name(key), _name(value)) for key, value in thing.items())
    if kind is types.MethodType:
        return kind, id(thing.__func__), id(thing.__self__)
    if kind is functools.partial:
        return kind, _name(thing.func), _name(thing.args), _name(thing.keywords)
    return kind, id(thing)


def _promote(leaf: Any) -> Any:
    dtype = jnp.result_type(leaf)
    return jnp.asarray(leaf, jnp.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype)
