"""Taking an algorithm apart: arrays that are traced, and everything else."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


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

    def identity(self) -> Any:
        """What two structures that compute the same have in common, hashable."""
        return self.tree, self.traced, tuple(_name(leaf) for leaf in self.static)


def split_algorithm(algorithm: Any) -> tuple[Structure, list[Any]]:
    """Structure, and arrays and floats in double precision."""
    leaves, tree = jax.tree.flatten(algorithm)
    traced = tuple(eqx.is_array(leaf) or isinstance(leaf, float) for leaf in leaves)
    arrays = [_promote(leaf) for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    static = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if not is_traced]
    return Structure(tree, traced, tuple(static)), arrays


def _name(leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf


def _promote(leaf: Any) -> Any:
    dtype = jnp.result_type(leaf)
    return jnp.asarray(leaf, jnp.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype)
