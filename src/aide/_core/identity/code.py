"""What a function or a class does, and which data of its module it reads while doing so."""

import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SKIPPED = frozenset(
    {
        "__abstractclassvars__",
        "__abstractmethods__",
        "__abstractvars__",
        "__annotate_func__",
        "__annotations__",
        "__annotations_cache__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__dict__",
        "__doc__",
        "__eq__",
        "__firstlineno__",
        "__hash__",
        "__init__",
        "__match_args__",
        "__module__",
        "__orig_bases__",
        "__parameters__",
        "__qualname__",
        "__replace__",
        "__repr__",
        "__signature__",
        "__slots__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
    }
)
"""Members of a class that play no part once an object is made, or that Python makes itself."""


def is_library(thing: Any) -> bool:
    """Whether a function or class belongs to Python, to this library or to an installed package.

    Those change with their versions only; everything else is a user's and is read.
    """
    name = getattr(thing, "__module__", None) or ""
    return _is_library_module(name) if name else True


@functools.cache
def _is_library_module(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.builtin_module_names or top == "aide":
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:  # an interactive session, `exec`; packages without a file have parts with one
        return top in sys.stdlib_module_names and top != "__main__"
    path = Path(file)
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib"))


def code_digest(code: types.CodeType) -> str:
    """A digest of the instructions and constants; line numbers and file names play no part."""
    constants = [
        code_digest(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        for constant in code.co_consts
    ]
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    words = (code.co_code.hex(), repr(shape), repr(names), *constants)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _constant(constant: Any) -> str:
    if isinstance(constant, frozenset):
        return f"frozenset {sorted(map(repr, constant))}"
    return f"{type(constant).__name__} {constant!r}"


def closed_over(function: Any) -> Iterator[tuple[str, Any]]:
    """Names and values that a function closes over; its own class (`super`) is left out."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name == "__class__":
            continue
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            yield name, None


def read_globals(function: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of the module-level variables that a function's code reads.

    `settings.DATA`, where `settings` is a module of the user's, is followed to the data.
    """
    for chain in sorted(_chains(function.__code__)):
        if chain[0] not in function.__globals__:
            continue
        value, depth = function.__globals__[chain[0]], 1
        while isinstance(value, types.ModuleType) and not _is_library_module(value.__name__):
            if depth == len(chain) or not hasattr(value, chain[depth]):
                break
            value, depth = getattr(value, chain[depth]), depth + 1
        yield ".".join(chain[:depth]), value


@functools.cache
def _chains(code: types.CodeType) -> frozenset[tuple[str, ...]]:
    """Global names that the code loads, each with the attributes taken from it at once."""
    found: set[tuple[str, ...]] = set()
    chain: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain = (*chain, str(step.argval))
        elif step.opname not in ("CACHE", "NOP", "PUSH_NULL"):
            found.add(chain)
            is_global = step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
            chain = (str(step.argval),) if is_global else ()
    found.add(chain)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _chains(constant)
    return frozenset(found - {()})


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and data of a class body."""
    for name, member in sorted(vars(kind).items()):
        if name not in _SKIPPED and not isinstance(
            member, types.GetSetDescriptorType | types.MemberDescriptorType
        ):
            yield name, member


def qualified_name(thing: Any) -> str:
    """The name, with module and version for an installed package.

    The module of a user's code is left out: a script is `__main__` when it is run, and has another
    name when it is imported.
    """
    module = getattr(thing, "__module__", "") or ""
    name = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    if not _is_library_module(module or "builtins"):
        return name
    top = sys.modules.get(module.partition(".")[0])
    return f"{module}.{name} {getattr(top, '__version__', '')}"
