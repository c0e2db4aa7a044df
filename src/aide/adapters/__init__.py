"""Models of other libraries: one file or folder per library, which alone imports it.

`aide.numpyro` and the like are these modules, loaded at their first use, so that `import aide`
loads none of the libraries.
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from aide.adapters.layout import Layout, Variable
from aide.adapters.posterior import AbstractPosterior

__all__ = [
    "AbstractPosterior",
    "Layout",
    "Variable",
    "load_adapter",
]

EXTRAS = {
    "arviz": "arviz",
    "blackjax": "blackjax",
    "cuthbert": "cuthbert",
    "numpyro": "numpyro",
    "particles": "",
    "posteriordb": "",
    "pymc": "pymc",
    "sbi": "",
    "stan": "stan",
}
"""The extra that an adapter needs, by the name of the adapter; empty if no extra is needed."""


def load_adapter(name: str) -> ModuleType:
    """The adapter of a library; an `ImportError` names the extra if the library is missing.

    Args:
        name: The name of the library in lower case, such as `numpyro`.

    Returns:
        The module `aide.adapters.<name>`.

    Example:
        >>> aide.adapters.load_adapter("numpyro").__name__
        'aide.adapters.numpyro'
    """
    try:
        return import_module(f"aide.adapters.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "aide":
            raise
        raise ImportError(
            f"aide.{name} needs {error.name}, which is not installed: "
            f"pip install 'aide-inference[{EXTRAS[name]}]'."
        ) from error


class _AdapterFinder(MetaPathFinder, Loader):
    """Finds adapters under their short names, for `import aide.numpyro`, and nothing else.

    The module `aide.numpyro` is the module `aide.adapters.numpyro` itself, not a copy.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        return ModuleSpec(fullname, self) if package == "aide" and name in EXTRAS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        adapter = load_adapter(spec.name.rpartition(".")[2])
        spec.loader_state = adapter.__spec__
        return adapter

    def exec_module(self, module: ModuleType) -> None:
        """Give the module, which has run already, its own specification back."""
        module.__spec__ = getattr(module.__spec__, "loader_state", module.__spec__)


if not any(isinstance(finder, _AdapterFinder) for finder in sys.meta_path):
    sys.meta_path.append(_AdapterFinder())
