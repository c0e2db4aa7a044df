"""A user's Python file: loading an algorithm or a study from it, here and on workers.

A study is a file with a gold standard and the targets that are measured against it.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from aide._core.algorithm import InferenceAlgorithm
from aide.engine.outputs import check_algorithm
from aide.engine.programs.places import Devices
from aide.experiments.runner import BadInput
from aide.reporting.result import Result

Loaded = TypeVar("Loaded")


def load_target(target: str) -> InferenceAlgorithm:
    """Import the file and return the named algorithm, or the result of the named function."""
    path, separator, name = target.rpartition(":")
    if not separator or not path or not name:
        raise BadInput(f"write FILE.py:NAME, such as model.py:my_filter, got {target!r}.")
    module = load_module(path)
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise BadInput(f"{path!r} defines no {name!r}; it has {', '.join(public) or 'nothing'}.")
    return as_algorithm(name, getattr(module, name))


def load_module(path: str) -> ModuleType:
    """Import a user's file."""
    file = Path(path)
    if not file.is_file():
        raise BadInput(f"there is no file {path!r}.")
    if file.suffix != ".py":
        raise BadInput(f"{path!r} is not a Python file: its name should end in .py.")
    return run_users("importing", path, lambda: _import_file(file.resolve()))


def as_algorithm(name: str, found: Any) -> InferenceAlgorithm:
    """An algorithm, or the result of a function without arguments that makes one."""
    if callable(found) and (isinstance(found, type) or not hasattr(found, "simulate")):
        found = run_users("calling", f"{name}()", found)
    try:
        check_algorithm(name, found)
    except TypeError as error:
        raise BadInput(str(error)) from None
    return found


def _import_file(file: Path) -> ModuleType:
    """Import a file, as a module of its package if it is in one.

    Its folder stays on the path, because functions of the file may import their neighbours later.
    """
    names = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path[:0] = list(dict.fromkeys([str(file.parent), str(folder)]))
    if len(names) > 1:
        return importlib.import_module(".".join(names))
    # A name of its own: a file called random.py must not replace the module of that name.
    spec = importlib.util.spec_from_file_location(f"aide_check_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


def run_users(doing: str, what: str, code: Callable[[], Loaded]) -> Loaded:
    """Run the user's code; every error, `sys.exit` too, becomes bad input."""
    try:
        return code()
    except (Exception, SystemExit) as error:
        raise BadInput(f"{doing} {what} failed: {type(error).__name__}: {error}") from error


class Study(NamedTuple):
    """The definitions of a file.

    Attributes:
        path: The file.
        module: The imported module.
        gold: The gold standard.
        targets: Algorithms to measure, by name.
        family: A function from parameters to an algorithm, for `aide tune`, or `None`.
        settings: The grid of its parameters, or `None`.
        cost: The cost for `aide tune`: a parameter, a function of a setting, or `None`.
        about_gold: How the gold standard was made, in the user's words.
        audit: The result of an audit of it, or `None`.
    """

    path: Path
    module: ModuleType
    gold: InferenceAlgorithm
    targets: dict[str, InferenceAlgorithm]
    family: Any
    settings: Any
    cost: Any
    about_gold: str
    audit: Result | None


def load_study(path: str, tuning: bool = False) -> Study:
    """Import the file; `gold` is needed, and `target`, `targets`, or for tuning `settings`.

    Instead of algorithms, the file may define functions without arguments that make them.
    """
    module = load_module(path)
    gold = as_algorithm("gold", _needed(module, path, "gold"))
    targets = {} if tuning else _targets(module, path)
    family = _needed(module, path, "target") if tuning else None
    settings = _needed(module, path, "settings") if tuning else None
    audit = getattr(module, "audit", None)
    if callable(audit) and not isinstance(audit, Result):
        audit = run_users("calling", "audit()", audit)
    about = getattr(module, "about_gold", "")
    found = audit if isinstance(audit, Result) else None
    cost = getattr(module, "cost", None)
    return Study(Path(path), module, gold, targets, family, settings, cost, str(about), found)


def _needed(module: ModuleType, path: str, name: str) -> Any:
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise BadInput(f"{path!r} must define {name!r}; it has {', '.join(public) or 'nothing'}.")
    return getattr(module, name)


def _targets(module: ModuleType, path: str) -> dict[str, InferenceAlgorithm]:
    if not hasattr(module, "targets"):
        return {"target": as_algorithm("target", _needed(module, path, "target"))}
    found = module.targets
    if callable(found):
        found = run_users("calling", "targets()", found)
    if not isinstance(found, Mapping) or not found:
        raise BadInput(f"targets of {path!r} must be a dictionary of algorithms, got {found!r}.")
    return {str(name): as_algorithm(f"targets[{name!r}]", one) for name, one in found.items()}


@contextmanager
def workers(
    num: int | None, address: str | None, devices: bool, module: ModuleType
) -> Iterator[Any]:
    """A `distributed.Client` for `--workers` or `--dask`, `Devices` for `--devices`, or `None`.

    Every worker, also a later one, imports the user's file from its text, under the name that it
    has here: workers need no access to the file.
    """
    if sum((num is not None, address is not None, devices)) > 1 or (num is not None and num < 1):
        raise BadInput("give one of --workers N, N at least 1, --dask ADDRESS and --devices.")
    if devices:
        with Devices() as executor:
            yield executor
        return
    if num is None and address is None:
        yield None
        return
    distributed = _distributed()
    plugin = _plugin(distributed, module)
    if address is not None:
        with dask_client(address) as client:
            client.register_plugin(plugin)
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=num, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(plugin)
        yield client


def dask_client(address: str) -> Any:
    """A client of the Dask scheduler at an address such as `tcp://HOST:PORT`."""
    try:
        return _distributed().Client(address, timeout="15s")
    except (OSError, TimeoutError, ValueError) as error:
        raise BadInput(f"no Dask scheduler answers at {address}: {error}.") from None


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise BadInput(
            "--workers and --dask need Dask: pip install 'aide-inference[dask]'."
        ) from None


def _plugin(distributed: Any, module: ModuleType) -> Any:
    file = str(module.__file__)
    with open(file) as opened:
        return _plugin_class(distributed)(module.__name__, file, opened.read(), list(sys.path))


def _plugin_class(distributed: Any) -> Any:
    class UsersFile(distributed.WorkerPlugin):
        """Makes the user's module on a worker."""

        name = "aide-users-file"

        def __init__(self, name: str, file: str, text: str, path: list[str]):
            self.module, self.file, self.text, self.path = name, file, text, path

        def setup(self, worker: Any) -> None:
            """Make the module when a worker starts, or at once."""
            make_module(self.module, self.file, self.text, self.path)

    return UsersFile


def make_module(name: str, file: str, text: str, path: list[str]) -> None:
    """Make a module from its text, unless one of that name exists."""
    sys.path += [folder for folder in path if folder not in sys.path]
    if name in sys.modules:
        return
    made = ModuleType(name)
    made.__file__ = file
    sys.modules[name] = made
    exec(compile(text, file, "exec"), made.__dict__)
