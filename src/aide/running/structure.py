"""Taking an algorithm apart: arrays that are traced, and everything else."""

import functools
import types
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import WITHOUT_EFFECT

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


@dataclass(frozen=True)
class Structure:
    """An algorithm without its arrays: the tree, which leaves are traced, and the other leaves."""

    tree: Any
    traced: tuple[bool, ...]
    static: tuple[Any, ...]

    def join(self, arrays: list[Any]) -> Any:
        """The algorithm again."""
        remaining, others = iter(arrays), iter(self.static)
        leaves = [next(remaining) if traced else next(others) for traced in self.traced]
        return jax.tree.unflatten(self.tree, leaves)

    def name(self) -> Hashable:
        """What two structures have in common that are sure to compute the same just now.

        Plain numbers and texts count by value, containers by their content, and everything else by
        its place in memory: two objects that merely claim to be equal are told apart.
        """
        return _name_of_tree(self.tree), self.traced, tuple(_name(leaf) for leaf in self.static)


def split_algorithm(algorithm: Any) -> tuple[Structure, list[Any]]:
    """Structure, and arrays and floats in double precision."""
    leaves, tree = jax.tree.flatten(algorithm)
    traced = tuple(eqx.is_array(leaf) or isinstance(leaf, float) for leaf in leaves)
    arrays = [_promote(leaf) for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    static = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if not is_traced]
    return Structure(tree, traced, tuple(static)), arrays


def _name_of_tree(tree: Any) -> Hashable:
    node = tree.node_data()
    if node is None:
        return tree.num_leaves  # a leaf, or None
    kind, auxiliary = node
    children = tuple(_name_of_tree(child) for child in tree.children())
    return kind, _name(auxiliary), children


def _name(thing: Any) -> Hashable:
    kind = type(thing)
    if kind in WITHOUT_EFFECT:
        return kind
    if kind in _PLAIN:
        return kind, thing
    if isinstance(thing, np.dtype | type):
        return thing
    if kind in (tuple, list) or (isinstance(thing, tuple) and hasattr(kind, "_fields")):
        return kind, tuple(_name(item) for item in thing)
    if kind is dict:
        return kind, tuple((_name(key), _name(value)) for key, value in thing.items())
    if kind is types.MethodType:
        return kind, id(thing.__func__), id(thing.__self__)
    if kind is functools.partial:
        return kind, _name(thing.func), _name(thing.args), _name(thing.keywords)
    return kind, id(thing)


def _promote(leaf: Any) -> Any:
    dtype = jnp.result_type(leaf)
    return jnp.asarray(leaf, jnp.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype)
