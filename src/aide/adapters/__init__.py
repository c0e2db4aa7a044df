"""Models of other libraries: one file or folder per library, which alone imports it.

`aide.numpyro` and the like are these modules, loaded at their first use, so that `import aide`
loads none of the libraries.
"""

import sys
from importlib import import_module
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


class _Alias(ModuleType):
    """Stands for an adapter in `sys.modules`, so that `import aide.numpyro` finds the adapter.

    The adapter is loaded when somebody first asks for one of its names.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools ask every module for such names: that is no use of it
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(load_adapter(self.__name__.partition(".")[2]), name)


for _name in EXTRAS:
    sys.modules.setdefault(f"aide.{_name}", _Alias(f"aide.{_name}"))
