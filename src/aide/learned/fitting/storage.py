"""Fits in files: equinox serialisation after one line of facts and sizes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np


def write_tree(path: str | Path, form: str, facts: Mapping[str, Any], tree: Any) -> None:
    """Write a tree of arrays; `form` names what the file holds, `facts` go into its first line."""
    shapes = [[list(leaf.shape), leaf.dtype.str] for leaf in jax.tree.leaves(tree)]
    header = {"format": form, "shapes": shapes, **facts}
    with open(path, "wb") as file:
        file.write((json.dumps(header) + "\n").encode())
        eqx.tree_serialise_leaves(file, tree)


def read_tree(path: str | Path, form: str, build: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Read what `write_tree` wrote.

    Args:
        path: The file.
        form: What it must hold.
        build: A tree of the right structure, given the facts; its leaves do not matter.
    """
    with open(path, "rb") as file:
        try:
            header = json.loads(file.readline())
            if header["format"] != form:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} does not hold a fit written by ReverseFit.save.") from None
        leaves = [np.zeros(shape, dtype) for shape, dtype in header["shapes"]]
        skeleton = jax.tree.unflatten(jax.tree.structure(build(header)), leaves)
        return eqx.tree_deserialise_leaves(file, skeleton)
