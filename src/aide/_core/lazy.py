"""Parts of SciPy, loaded at their first use: they would add some 0.4 s to `import aide`."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import optimize, special
else:

    class _Later(ModuleType):
        """A module whose attributes are those of the module it is named after."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    optimize, special = _Later("scipy.optimize"), _Later("scipy.special")

__all__ = ["optimize", "special"]
