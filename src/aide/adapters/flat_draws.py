"""Draws by name, checked, as rows of the unconstrained vector."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, ArrayLike

from aide.adapters.layout import Layout
from aide.engine.programs.map_runs import in_double

if TYPE_CHECKING:
    from aide.adapters.posterior import AbstractPosterior

CLOSE = 1e-5
"""Relative to a value: how near it must come when it is moved to the reals and back.

Draws often come in single precision, and sums to 1 hold to 1e-6 only.
"""


def flatten_draws(posterior: "AbstractPosterior", draws: Mapping[str, ArrayLike]) -> np.ndarray:
    """Constrained draws by name as an array (chain, draw, coordinate) of reals.

    A value belongs to the support if it survives the way to the reals and back.
    """
    layout = posterior.layout
    layout.check_names("draws", draws, posterior.derived)
    arrays = {name: _as_reals(name, draws[name]) for name in layout.names}
    num_chains, num_draws = _sizes(layout, arrays)
    rows = {
        variable.name: arrays[variable.name].reshape(-1, *variable.shape)
        for variable in layout.variables
    }

    flat, again, parts = in_double(_there_and_back, posterior, rows)
    for name, values in rows.items():
        near = np.abs(again[name] - values) <= CLOSE * np.maximum(np.abs(values), 1.0)
        is_inside = _all(near) & _all(np.isfinite(parts[name]))
        if not is_inside.all():
            _complain(posterior, name, values, np.flatnonzero(~is_inside), num_draws)
    return flat.reshape(num_chains, num_draws, layout.dimension)


def _there_and_back(posterior: "AbstractPosterior", rows: dict[str, np.ndarray]) -> Any:
    """For every row: its vector, the values it stands for, and its parts by name."""

    def move(values: dict[str, Array]) -> Any:
        x = posterior.unconstrain(values)
        return x, posterior.constrain(x), posterior.layout.unpack(x)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(move))(rows))


def _as_reals(name: str, values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"draws of {name} must be real numbers, got {array.dtype}.")
    return array.astype(np.float64)


def _sizes(layout: Layout, arrays: dict[str, np.ndarray]) -> tuple[int, int]:
    """Chains and draws, which must be the same for all variables."""
    sizes: dict[str, tuple[int, ...]] = {}
    for variable in layout.variables:
        shape = arrays[variable.name].shape
        num_axes = len(shape) - len(variable.shape)
        if num_axes not in (1, 2) or shape[num_axes:] != variable.shape:
            raise ValueError(
                f"draws of {variable.name} must have the shape (chain, draw, "
                f"*{variable.shape}) or (draw, *{variable.shape}), got {shape}."
            )
        sizes[variable.name] = shape[:num_axes]
    first, size = next(iter(sizes.items()))
    for name, other in sizes.items():
        if other != size:
            raise ValueError(
                f"there are {size} draws of {first}, but {other} of {name}: pass all draws of the "
                "same runs, either all by chain or none."
            )
    if 0 in size:
        raise ValueError("there are no draws.")
    return (1, size[0]) if len(size) == 1 else (size[0], size[1])


def _all(found: np.ndarray) -> np.ndarray:
    """Whether it holds for all entries of a row."""
    return np.asarray(found.reshape(len(found), -1).all(axis=1))


def _complain(
    posterior: "AbstractPosterior", name: str, values: np.ndarray, rows: np.ndarray, num_draws: int
) -> None:
    support = next(v.support for v in posterior.layout.variables if v.name == name)
    chain, draw = divmod(int(rows[0]), num_draws)
    raise ValueError(
        f"{len(rows)} of {len(values)} draws of {name} are outside its support ({support}) or on "
        f"its boundary, the first is draw {draw} of chain {chain}: {values[rows[0]]}. Draws must "
        f"be on the scale of the model, not transformed. If values were rounded to the boundary, "
        f"sample in double precision."
    )
