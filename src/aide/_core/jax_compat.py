"""The one place that uses names of JAX which another version may move, rename or drop.

JAX promises nothing about `jax.extend`, `jax.experimental`, `jax.custom_batching`, the type of
tracers and the names of its settings. The rest of the library asks the functions below, and
`tests/core/test_jax_compat.py` checks each of them with the JAX that is installed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

import jax
from jax.core import Tracer
from jax.custom_batching import custom_vmap
from jax.extend import core as extend_core
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

__all__ = [
    "ClosedJaxpr",
    "Jaxpr",
    "Literal",
    "custom_vmap",
    "default_device",
    "inner_jaxprs",
    "is_traced",
    "jaxpr_function",
    "one_level",
    "setting",
    "threefry_is_partitionable",
]


def is_traced(thing: object) -> TypeGuard[jax.Array]:
    """Whether a value stands for one that is not known yet, inside `jit`, `grad` or `vmap`."""
    return isinstance(thing, Tracer)


def setting(name: str, default: Any = None) -> Any:
    """A setting of JAX by its full name, such as `jax_enable_x64`; `default` if JAX has none."""
    return getattr(jax.config, name, default)


def threefry_is_partitionable() -> bool:
    """Whether random bits of `jax.random` do not depend on how arrays are split over devices.

    True unless `JAX_THREEFRY_PARTITIONABLE=0`; a JAX without the setting knows no other way.
    """
    return bool(setting("jax_threefry_partitionable", True))


def default_device() -> Any:
    """The device that `jax.default_device` names, else the first one."""
    device = setting("jax_default_device")
    return jax.devices(device)[0] if device is None or isinstance(device, str) else device


def one_level(node: Any) -> tuple[list[Any], Any]:
    """The children of one node of a pytree, and what its type keeps besides them.

    `node` must not be a leaf.
    """
    found: Any = jax.tree_util.default_registry.flatten_one_level(node)
    children, rest = found
    return list(children), rest


def jaxpr_function(closed: Any) -> Callable[..., Any]:
    """A closed program as a function of flat arguments, which JAX can trace again."""
    return extend_core.jaxpr_as_fun(closed)


def inner_jaxprs(parameters: Mapping[str, Any]) -> Iterable[Any]:
    """The programs inside one equation of a program: bodies of loops, branches, calls."""
    return extend_core.jaxprs_in_params(dict(parameters))
