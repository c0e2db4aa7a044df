"""Finding an algorithm in a user's file: `FILE.py:NAME`."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from aide._core.algorithm import InferenceAlgorithm
from aide.engine.outputs import check_algorithm

Loaded = TypeVar("Loaded")


class BadTarget(Exception):
    """The file, or the name in it, cannot be used; the message is one line."""


def load_target(target: str) -> InferenceAlgorithm:
    """Import the file and return the named algorithm; a function is called to make one."""
    path, separator, name = target.rpartition(":")
    if not separator or not path or not name:
        raise BadTarget(f"write FILE.py:NAME, such as model.py:my_filter, got {target!r}.")
    module = load_module(path)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise BadTarget(f"{path!r} defines no {name!r}; it has {', '.join(public) or 'nothing'}.")
    return as_algorithm(name, getattr(module, name))


def load_module(path: str) -> ModuleType:
    """Import a user's file."""
    file = Path(path)
    if not file.is_file():
        raise BadTarget(f"there is no file {path!r}.")
    if file.suffix != ".py":
        raise BadTarget(f"{path!r} is not a Python file: its name should end in .py.")
    return run_users("importing", path, lambda: _import_file(file.resolve()))


def as_algorithm(name: str, found: Any) -> InferenceAlgorithm:
    """What a file has under a name; a function is called to make an algorithm."""
    if callable(found) and (isinstance(found, type) or not hasattr(found, "simulate")):
        found = run_users("calling", f"{name}()", found)
    try:
        check_algorithm(name, found)
    except TypeError as error:
        raise BadTarget(str(error)) from None
    return found


def _import_file(file: Path) -> ModuleType:
    """Import a file, as a module of its package if it is in one.

    Its folder stays on the path: functions of the file may import their neighbours later.
    """
    names = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path[:0] = list(dict.fromkeys([str(file.parent), str(folder)]))
    if len(names) > 1:
        return importlib.import_module(".".join(names))
    # A name of its own: a file called random.py must not replace that module for everybody.
    spec = importlib.util.spec_from_file_location(f"aide_check_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def run_users(doing: str, what: str, code: Callable[[], Loaded]) -> Loaded:
    """Run the user's code; whatever ends it, `sys.exit` too, is bad input."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        raise BadTarget(f"{doing} {what} failed: {type(error).__name__}: {error}") from error
