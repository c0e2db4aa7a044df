"""Arrays of draws: which axes are which, what is wrong with them, and all as columns."""

from typing import Any

import jax
import numpy as np

from aide._core.flat_states import flat_rows
from aide._core.types import Value


def as_chains(draws: Value, has_chains: bool) -> tuple[Value, tuple[int, int]]:
    """Arrays with leading axes (chain, draw), reals in double precision; and these axes.

    Raises:
        ValueError: If arrays lack these axes, differ in them, or hold an entry that is not finite.
    """
    axes = ("chain", "draw") if has_chains else ("draw",)
    words = f"the leading {'axes' if has_chains else 'axis'} ({', '.join(axes)})"
    named = jax.tree_util.tree_leaves_with_path(draws)
    if not named:
        raise ValueError("draws must hold at least one array, got none.")
    shapes: dict[str, tuple[int, ...]] = {}
    for path, leaf in named:
        array, name = np.asarray(leaf), f"draws{jax.tree_util.keystr(path)}"
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}.")
        if array.ndim < len(axes) or 0 in array.shape[: len(axes)]:
            raise ValueError(
                f"{name} must have {words}, each at least 1, got shape {array.shape}. "
                "has_chains says whether the first axis numbers chains."
            )
        shapes[name] = array.shape[: len(axes)]
        _check_finite(name, array, axes)
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"all arrays of draws must agree in {words}, got {found}.")
    arranged = jax.tree.map(lambda leaf: _arranged(leaf, has_chains), draws)
    num_chains, num_draws = jax.tree.leaves(arranged)[0].shape[:2]
    return arranged, (num_chains, num_draws)


def flat_draws(draws: Value) -> Value:
    """Arrays with one leading axis, chain after chain."""
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), draws)


def columns_of(draws: Value) -> np.ndarray:
    """All numbers of every draw: shape (chain, draw, coordinate), as reals."""
    return flat_rows(draws, 2)


def column_names(draws: Value) -> list[str]:
    """A name for every column of `columns_of`: `theta[1]`, or `x[1]` for a bare array."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(draws):
        parts = [str(getattr(part, "key", getattr(part, "idx", part))) for part in path]
        name, shape = ".".join(parts) or "x", np.shape(leaf)[2:]
        places = [",".join(map(str, place)) for place in np.ndindex(*shape)]
        found += [f"{name}[{place}]" if place else name for place in places]
    return found


def _arranged(leaf: Any, has_chains: bool) -> np.ndarray:
    array = np.array(leaf)
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    return array if has_chains else array[None]


def _check_finite(name: str, array: np.ndarray, axes: tuple[str, ...]) -> None:
    if array.dtype.kind != "f":
        return
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = ", ".join(f"{axis} {i}" for axis, i in zip(axes, wrong[0], strict=False))
        raise ValueError(
            f"{name} has {len(wrong)} entries that are not finite numbers, the first "
            f"({array[tuple(wrong[0])]}) at {place}. Leave out chains that failed; draws are never "
            "repaired."
        )
