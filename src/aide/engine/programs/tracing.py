"""One call of ours: code is traced anew for every call, and once within it.

JAX keeps what it traced of a user's functions (loop bodies, jitted functions) by the function
alone, whatever the function reads from its surroundings. A context of our own
(`jax.make_user_context`) has another value in every call, so that JAX traces them again, and the
user's own caches stay what they are.
"""

import functools
import gc
import itertools
import types
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import WITHOUT_EFFECT

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


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


@dataclass(frozen=True)
class Structure:
    """An algorithm without its arrays: the tree, which leaves are traced, and the other leaves."""

    tree: Any
    traced: tuple[bool, ...]
    static: tuple[Any, ...]

    def join(self, arrays: list[Any]) -> Any:
        """The algorithm again."""
        remaining, others = iter(arrays), iter(self.static)
        leaves = [next(remaining) if traced else next(others) for traced in self.traced]
        return jax.tree.unflatten(self.tree, leaves)

    def name(self) -> Hashable:
        """What two structures have in common that are sure to compute the same just now.

        Plain numbers and texts count by value, containers by their content, and everything else by
        its place in memory: two objects that merely claim to be equal are told apart.
        """
        return _name_of_tree(self.tree), self.traced, tuple(_name(leaf) for leaf in self.static)


def split_algorithm(algorithm: Any) -> tuple[Structure, list[Any]]:
    """Structure, and arrays and floats in double precision."""
    leaves, tree = jax.tree.flatten(algorithm)
    traced = tuple(eqx.is_array(leaf) or isinstance(leaf, float) for leaf in leaves)
    arrays = [_promote(leaf) for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    static = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if not is_traced]
    return Structure(tree, traced, tuple(static)), arrays


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
