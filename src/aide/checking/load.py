"""Finding an algorithm in a user's file: `FILE.py:NAME`."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from aide.estimation.check_outputs import check_algorithm


class BadTarget(Exception):
    """The file, or the name in it, cannot be used; the message is one line."""


def load_target(target: str) -> Any:
    """Import the file and return the named algorithm; a function is called to make one."""
    path, separator, name = target.rpartition(":")
    if not separator or not path or not name:
        raise BadTarget(f"write FILE.py:NAME, such as model.py:my_filter, got {target!r}.")
    file = Path(path)
    if not file.is_file():
        raise BadTarget(f"there is no file {path!r}.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{path!r} is not a Python file: its name should end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up there
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadTarget(f"importing {path!r} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise BadTarget(f"{path!r} defines no {name!r}; it has {', '.join(public) or 'nothing'}.")
    found = getattr(module, name)
    if callable(found) and (isinstance(found, type) or not hasattr(found, "simulate")):
        try:
            found = found()
        except TypeError as error:
            raise BadTarget(f"calling {name}() to make an algorithm failed: {error}.") from error
    try:
        check_algorithm(name, found)
    except TypeError as error:
        raise BadTarget(str(error)) from None
    return found
