"""Variables of a model by name, the vector on which algorithms work, and draws as its rows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from aide.engine.programs.map_runs import in_double

if TYPE_CHECKING:
    from aide.adapters.posterior import AbstractPosterior


class Variable(NamedTuple):
    """A continuous variable of a model.

    Attributes:
        name: The model's name of the variable.
        shape: Shape of its value, on the scale of the model.
        unconstrained_shape: Shape of its unconstrained value; a simplex of 3 has 2 reals.
        support: The range of its values, in words; `real` for unconstrained values.

    Example:
        >>> aide.adapters.Variable("weights", (3,), (2,), "a simplex").shape
        (3,)
    """

    name: str
    shape: tuple[int, ...] = ()
    unconstrained_shape: tuple[int, ...] = ()
    support: str = "real"

    @property
    def num_coordinates(self) -> int:
        """Number of entries of the vector that belong to the variable."""
        return math.prod(self.unconstrained_shape)


@dataclass(frozen=True)
class Layout:
    """The assignment of entries of the unconstrained vector to variables.

    Variables follow one another in the order given here, each in C order. Users need not know the
    order: `pack` and `unpack` go by name, and `coordinates` names every entry.

    Args:
        variables: The variables, in the order of the vector.

    Example:
        >>> layout = aide.adapters.Layout(
        ...     (aide.adapters.Variable("mu"), aide.adapters.Variable("beta", (2,), (2,)))
        ... )
        >>> layout.coordinates
        ('mu', 'beta[0]', 'beta[1]')
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"names of variables must differ; {', '.join(twice)} occurs twice.")
        if not self.dimension:
            raise ValueError("the model has no continuous variable to infer.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, in order."""
        return tuple(variable.name for variable in self.variables)

    @property
    def dimension(self) -> int:
        """Length of the unconstrained vector."""
        return sum(variable.num_coordinates for variable in self.variables)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """A name for every entry of the vector, such as `theta[2]`; indices start at 0."""
        return tuple(
            f"{variable.name}[{','.join(map(str, index))}]" if index else variable.name
            for variable in self.variables
            for index in np.ndindex(variable.unconstrained_shape)
        )

    def pack(self, parts: Mapping[str, ArrayLike]) -> Float[Array, " d"]:
        """The vector made of unconstrained arrays by name."""
        self.check_names("unconstrained values", parts)
        for variable in self.variables:
            shape = jnp.shape(parts[variable.name])
            if shape != variable.unconstrained_shape:
                raise ValueError(
                    f"{variable.name} has the unconstrained shape {variable.unconstrained_shape}, "
                    f"got {shape}."
                )
        return jnp.concatenate([jnp.ravel(jnp.asarray(parts[name])) for name in self.names])

    def unpack(self, x: Float[Array, " d"]) -> dict[str, Array]:
        """Unconstrained arrays by name."""
        if jnp.shape(x) != (self.dimension,):
            raise ValueError(f"expected a vector of {self.dimension}, got shape {jnp.shape(x)}.")
        parts, begin = {}, 0
        for variable in self.variables:
            end = begin + variable.num_coordinates
            parts[variable.name] = x[begin:end].reshape(variable.unconstrained_shape)
            begin = end
        return parts

    def check_names(self, what: str, names: Iterable[str], derived: Iterable[str] = ()) -> None:
        """Raise unless the names are those of the variables; names in `derived` are allowed.

        The error reports missing and unknown names.
        """
        found = set(names)
        missing = [name for name in self.names if name not in found]
        unknown = sorted(found - set(self.names) - set(derived))
        if missing or unknown:
            faults = [f"no {', '.join(missing)}"] * bool(missing)
            faults += [f"{', '.join(unknown)}, which the model does not have"] * bool(unknown)
            raise ValueError(
                f"{what}: there is {' and there is '.join(faults)}. "
                f"The variables are {', '.join(self.names)}."
            )


CLOSE = 1e-5
"""Largest relative change of a value that is moved to the reals and back.

Draws are often in single precision, and sums to 1 hold to 1e-6 only.
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
    """For every row: its vector, the values at this vector, and its parts by name."""

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
    """Numbers of chains and draws; raise unless they are the same for all variables."""
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
        raise ValueError("the arrays hold no draws.")
    return (1, size[0]) if len(size) == 1 else (size[0], size[1])


def _all(found: np.ndarray) -> np.ndarray:
    """Whether a condition holds for all entries of a row."""
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
