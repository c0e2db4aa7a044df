"""The names of JAX that another version of JAX may move, rename or drop; no other file uses them.

JAX promises nothing about `jax.extend`, `jax.experimental`, `jax.custom_batching`, the type of
tracers, contexts of users, the names of its settings and the options of its compiler. The rest of
the library asks the functions below, and `tests/core/test_jax_compat.py` checks each of them with
the JAX that is installed.
"""

import functools
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
    "compile_with",
    "custom_vmap",
    "default_device",
    "inner_jaxprs",
    "is_traced",
    "jaxpr_function",
    "keep_compiled_in",
    "node_children",
    "setting",
    "threefry_is_partitionable",
    "user_context",
]


def is_traced(thing: object) -> TypeGuard[jax.Array]:
    """Whether a value is a tracer of JAX: the code runs inside of `jit`, `grad` or `vmap`."""
    return isinstance(thing, Tracer)


def setting(name: str, default: Any = None) -> Any:
    """Return a setting of JAX by its full name, such as `jax_enable_x64`.

    The result is `default` if the installed JAX has no such setting.
    """
    return getattr(jax.config, name, default)


def threefry_is_partitionable() -> bool:
    """Whether random bits of `jax.random` do not depend on how arrays are split over devices.

    True unless `JAX_THREEFRY_PARTITIONABLE=0`, and in every JAX that dropped the setting.
    """
    return bool(setting("jax_threefry_partitionable", True))


def default_device() -> Any:
    """Return the device that `jax.default_device` names, else the first device."""
    device = setting("jax_default_device")
    return jax.devices(device)[0] if device is None or isinstance(device, str) else device


def node_children(node: Any) -> tuple[list[Any], Any]:
    """Return the children of one node of a pytree, and the static data that the node keeps.

    `node` must not be a leaf.
    """
    flattened: Any = jax.tree_util.default_registry.flatten_one_level(node)
    children, static = flattened
    return list(children), static


def jaxpr_function(closed: Any) -> Callable[..., Any]:
    """Return a closed program as a function of flat arguments, which JAX can trace again."""
    return extend_core.jaxpr_as_fun(closed)


def inner_jaxprs(parameters: Mapping[str, Any]) -> Iterable[Any]:
    """Return the programs inside one equation of a program: bodies of loops, branches, calls."""
    return extend_core.jaxprs_in_params(dict(parameters))


def user_context() -> Any:
    """Return a new context; JAX uses traced code again only under the same value of the context.

    Calling the context with a value sets the value inside of a `with` block.
    """
    return jax.make_user_context(None)


def compile_with(lowered: Any, options: Mapping[str, Any]) -> Any:
    """Compile a lowered program with those options that the installed compiler knows.

    An option that the installed version of XLA does not know is left out; the others stay.
    """
    try:
        return lowered.compile(compiler_options=dict(options))
    except jax.errors.JaxRuntimeError:
        known = {name: value for name, value in options.items() if _is_known(name, value)}
        if len(known) == len(options):
            raise  # the options are not to blame
        return lowered.compile(compiler_options=known)


@functools.cache
def _is_known(option: str, value: Any) -> bool:
    """Whether the compiler accepts an option, tried on a program that adds two numbers."""
    program = jax.jit(lambda x: x + 1).lower(1)
    try:
        program.compile(compiler_options={option: value})
    except jax.errors.JaxRuntimeError:
        return False
    return True


def keep_compiled_in(folder: str) -> None:
    """Turn on JAX's own cache of compiled programs in `folder`, unless JAX has a cache already.

    The cache keeps programs of every size and compilation time.
    """
    if setting("jax_compilation_cache_dir"):
        return
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()  # the cache reads the settings only when it is made
    except (ImportError, AttributeError):
        pass
