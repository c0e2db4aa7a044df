"""A walk through an object and everything it refers to."""

import copyreg
import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from aide._core.algorithm import Aside, Label, NumWorkers
from aide._core.identity.code import (
    closed_over,
    code_digest,
    is_library,
    members_of,
    qualified_name,
    read_globals,
)

MOST_OBJECTS = 100_000
"""Larger structures are not looked into."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), np.dtype)
_NAMED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ModuleType,
    types.WrapperDescriptorType,
    np.ufunc,
)


class Walk:
    """Digests of objects, by what they hold and not by where they live in memory.

    `facts` are the digests of the parts, by name, `unseen` what nobody can look into, and
    `functions` the users' functions on the way with the digests of what they read.
    `has_users_code` says whether anything on the way was a user's.
    """

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.unseen: list[str] = []
        self.functions: list[tuple[Any, str]] = []
        self.has_users_code = False
        self._known: dict[tuple[int, bool], str] = {}
        self._inside: dict[int, int] = {}
        self._alive: list[Any] = []

    def look(self, name: str, thing: Any, traced: bool = False) -> str:
        """The digest of an object; the names of its parts begin with `name`.

        With `traced`, arrays and floats that JAX would trace are not looked at.
        """
        if isinstance(thing, Label | Aside | NumWorkers):
            return ""
        if isinstance(thing, _PLAIN):
            if traced and isinstance(thing, float):
                return self._say(name, "traced")
            return self._say(name, type(thing).__name__, repr(thing))
        if isinstance(thing, np.ndarray | np.generic | jax.Array):
            return self._array(name, thing, traced)
        if id(thing) in self._inside:
            return self._say(name, f"{len(self._inside) - self._inside[id(thing)]} levels up")
        if (id(thing), traced) in self._known:
            self.facts[name] = self._known[id(thing), traced]
            return self.facts[name]
        if len(self._known) > MOST_OBJECTS:
            return self._cannot_see(name, thing)
        self._inside[id(thing)] = len(self._inside)
        digest = self._parts(name, thing, traced)
        del self._inside[id(thing)]
        self._known[id(thing), traced] = digest
        self._alive.append(thing)  # an id is unique as long as its object lives
        return digest

    def _look_apart(self, thing: Any) -> str:
        """A digest that does not depend on what was seen before; for parts without an order."""
        walk = Walk()
        digest = walk.look("", thing)
        self.unseen += walk.unseen
        self.functions += walk.functions
        self.has_users_code |= walk.has_users_code
        return digest

    def _array(self, name: str, thing: Any, traced: bool) -> str:
        if traced:
            return self._say(name, "traced")
        if isinstance(thing, jax.core.Tracer):
            return self._cannot_see(name, thing)
        if jax.dtypes.issubdtype(thing.dtype, jax.dtypes.prng_key):
            words = jax.random.key_data(thing)
            return _hash(str(jax.random.key_impl(thing)), self._array(name, words, False))
        if thing.dtype == object:
            return self._all(name, enumerate(np.asarray(thing).ravel().tolist()), False)
        content = hashlib.sha256(np.asarray(thing).tobytes()).hexdigest()
        return self._say(name, f"{thing.dtype}{list(thing.shape)}", content)

    def _parts(self, name: str, thing: Any, traced: bool) -> str:
        stated = None if isinstance(thing, type) else getattr(thing, "aide_identity", None)
        if isinstance(stated, str):
            self.has_users_code |= not is_library(type(thing))
            return self._say(name, qualified_name(type(thing)), stated)
        if isinstance(thing, types.FunctionType):
            return self._function(name, thing)
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, _NAMED):
            return self._say(name, qualified_name(thing))
        if isinstance(thing, set | frozenset):
            return self._say(name, *sorted(map(self._look_apart, thing)))
        inner = self._inner(thing) if jax.tree_util.all_leaves([thing]) else None
        if inner is not None:
            return self._all(name, inner, False)
        kind = self.look(_join(name, "class"), type(thing))
        if isinstance(thing, dict | types.MappingProxyType):
            items = ((key if isinstance(key, str) else repr(key), thing[key]) for key in thing)
            return _hash(kind, self._all(name, items, traced))
        if isinstance(thing, list | tuple):
            return _hash(kind, self._all(name, enumerate(thing), traced))
        return _hash(kind, self._instance(name, thing, traced))

    @staticmethod
    def _inner(thing: Any) -> list[tuple[str, Any]] | None:
        """The parts of something that wraps a function."""
        if isinstance(thing, types.MethodType):
            return [("self", thing.__self__), (thing.__func__.__name__, thing.__func__)]
        if isinstance(thing, functools.partial):
            return [("function", thing.func), ("given", (thing.args, thing.keywords))]
        if isinstance(thing, property):
            return [("get", thing.fget)]
        if isinstance(thing, staticmethod | classmethod):
            return [("function", thing.__func__)]
        if callable(getattr(thing, "__wrapped__", None)):  # jax.jit, functools.wraps
            return [("function", thing.__wrapped__)]
        return None

    def _function(self, name: str, function: Any) -> str:
        closure = self._all(f"{name} closes over", closed_over(function), False, " ")
        if is_library(function):
            # Made anew with each call, its defaults may hold anything; versions do not say what.
            self.has_users_code |= "<locals>" in function.__qualname__ and (
                function.__defaults__ is not None or function.__kwdefaults__ is not None
            )
            return _hash(self._say(name, qualified_name(function)), closure)
        self.has_users_code = True
        code = self._say(_join(name, "code"), code_digest(function.__code__))
        read = self._all(f"{name} reads", read_globals(function), False, " ")
        defaults = (function.__defaults__, function.__kwdefaults__, vars(function))
        digest = _hash(code, closure, read, self.look(f"{name} defaults", defaults))
        self.functions.append((function, digest))
        return digest

    def _class(self, kind: type) -> str:
        name = f"class {kind.__qualname__}"
        named = self._say(name, qualified_name(kind))
        if is_library(kind):
            return named
        self.has_users_code = True
        bases = self._all(f"{name} base", enumerate(kind.__bases__), False, " ")
        return _hash(named, bases, self._all(name, members_of(kind), False))

    def _instance(self, name: str, thing: Any, traced: bool) -> str:
        if isinstance(thing, eqx.Module):
            followed = {f.name for f in dataclasses.fields(thing) if not f.metadata.get("static")}
            parts = _attributes(thing).items()
            found = [
                part + self.look(_join(name, part), value, traced and part in followed)
                for part, value in parts
            ]
            return _hash(*found)
        if not jax.tree_util.all_leaves([thing]):
            level: Any = jax.tree_util.default_registry.flatten_one_level(thing)
            children = self._all(name, enumerate(level[0]), traced)
            rest = level[1] if isinstance(level[1], tuple) else (level[1],)
            # Some libraries list their settings in the order of a set, which varies.
            return _hash(children, *sorted(map(self._look_apart, rest)))
        state = _attributes(thing) or _reduced(thing)
        if state is None:
            return self._cannot_see(name, thing)
        return self._all(name, state.items(), False)

    def _all(self, name: str, items: Iterable[Any], traced: bool, link: str = ".") -> str:
        found = [
            str(part) + self.look(_join(name, str(part), link), thing, traced)
            for part, thing in items
        ]
        return _hash(*found)

    def _cannot_see(self, name: str, thing: Any) -> str:
        self.unseen.append(f"{name or 'the object'} ({type(thing).__qualname__})")
        return self._say(name, "unseen", qualified_name(type(thing)))

    def _say(self, name: str, *words: str) -> str:
        self.facts[name] = _hash(*words)
        return self.facts[name]


def _attributes(thing: Any) -> dict[str, Any]:
    slots = [slot for kind in type(thing).__mro__ for slot in _slots(kind)]
    found = {slot: getattr(thing, slot) for slot in slots if hasattr(thing, slot)}
    return {**found, **getattr(thing, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    slots: Any = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _reduced(thing: Any) -> dict[str, Any] | None:
    """What pickling would write down; nothing is pickled."""
    registered = copyreg.dispatch_table.get(type(thing))  # `int | str`, say
    try:
        how, *state = thing.__reduce_ex__(4) if registered is None else registered(thing)
    except Exception:  # whatever an object raises that cannot be pickled
        return None
    return {"made by": how, "from": [part for part in state if part is not None]}


def _join(name: str, part: str, link: str = ".") -> str:
    return f"{name}{link}{part}" if name else part


def _hash(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
