"""Variables of a model by name, and the one vector that algorithms work on."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float


class Variable(NamedTuple):
    """A continuous variable of a model.

    Attributes:
        name: As the model calls it.
        shape: Of its value, on the scale of the model.
        unconstrained_shape: Of the reals it is a function of; a simplex of 3 has 2 of them.
        support: Where its values lie, in words; `real` if they are unconstrained already.
    """

    name: str
    shape: tuple[int, ...] = ()
    unconstrained_shape: tuple[int, ...] = ()
    support: str = "real"

    @property
    def num_coordinates(self) -> int:
        """How many entries of the vector belong to it."""
        return math.prod(self.unconstrained_shape)


@dataclass(frozen=True)
class Layout:
    """Which entry of the unconstrained vector belongs to which variable.

    Variables follow one another in the order given here, each in C order. Nobody needs to know that
    order: `pack` and `unpack` go by name, and `coordinates` names every entry.
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        names = self.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"names of variables must differ; {', '.join(twice)} is there twice.")
        if not self.dimension:
            raise ValueError("the model has no continuous variable to infer.")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in order."""
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
        """Raise unless the names are those of the variables; those of `derived` may be there too.

        Both missing and unknown names are reported.
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
