"""Workers of a command: a local Dask cluster, one that is there already, or all devices."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from aide.engine.programs.places import Devices
from aide.experiments.data import BadInput


@contextmanager
def workers(
    num: int | None, address: str | None, devices: bool, module: ModuleType
) -> Iterator[Any]:
    """A `distributed.Client` for `--workers` or `--dask`, `Devices` for `--devices`, or `None`.

    The user's file is imported on every worker under the name it has here, also on one that takes
    the place of another, from its text: the workers need not see the file itself.
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
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise BadInput(
            "--workers and --dask need Dask: pip install 'aide-inference[dask]'."
        ) from None
    plugin = _plugin(distributed, module)
    if address is not None:
        try:
            client = distributed.Client(address, timeout="15s")
        except (OSError, TimeoutError, ValueError) as error:
            raise BadInput(f"no Dask scheduler answers at {address}: {error}.") from None
        with client:
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
            """Called when a worker starts, or at once."""
            make_module(self.module, self.file, self.text, self.path)

    return UsersFile


def make_module(name: str, file: str, text: str, path: list[str]) -> None:
    """Make a module from its text, unless there is one of that name."""
    sys.path += [folder for folder in path if folder not in sys.path]
    if name in sys.modules:
        return
    made = ModuleType(name)
    made.__file__ = file
    sys.modules[name] = made
    exec(compile(text, file, "exec"), made.__dict__)
