"""The same object with other settings, where that is safe."""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any


def rebuilt(thing: Any, **changes: Any) -> Any:
    """The same object with other values of some settings; `None` if that is unsafe.

    A dataclass is replaced. Another class is built anew from its attributes if each argument of its
    constructor is kept under its own name, and copied if the settings are class attributes and the
    object holds nothing of its own. A changed attribute alone would leave alone what was derived
    from it.
    """
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        settings = {field.name for field in dataclasses.fields(thing) if field.init}
        return dataclasses.replace(thing, **changes) if set(changes) <= settings else None
    kept = vars(thing) if hasattr(thing, "__dict__") else {}
    try:
        parameters = inspect.signature(type(thing)).parameters
    except (TypeError, ValueError):
        return None
    if parameters and set(changes) <= set(parameters) <= set(kept):
        settings = {parameter: kept[parameter] for parameter in parameters}
        build: Callable[..., Any] = type(thing)
        return build(**{**settings, **changes})
    if not kept and not parameters and all(hasattr(thing, name) for name in changes):
        changed = copy.copy(thing)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed
    return None
