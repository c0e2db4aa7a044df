"""What a model of the scorecard is, and flat priors."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

Data = Mapping[str, Any]
"""What the Stan program declares in its block `data`, by name."""
Draws = Mapping[str, np.ndarray]
"""Arrays (chain, draw, ...) by name, on the scale of the model."""


def as_stored(draws: Draws, data: Data) -> Draws:
    """Return the draws themselves: the database stores what the model samples."""
    return draws


class Model(NamedTuple):
    """A NumPyro model with its way from the database.

    Attributes:
        model: The NumPyro model.
        arguments: The arguments of the model, computed from the data.
        draws: The variables of the model, computed from stored draws and data.
    """

    model: Callable[..., None]
    arguments: Callable[[Data], tuple[Any, ...]]
    draws: Callable[[Draws, Data], Draws] = as_stored


def flat(name: str, support: Any = constraints.real, shape: tuple[int, ...] = ()) -> Any:
    """Sample a variable with a flat prior, as Stan gives to a parameter that has none."""
    return numpyro.sample(name, dist.ImproperUniform(support, (), shape))


def column(data: Data, name: str) -> np.ndarray:
    """Return an array of the data in double precision."""
    return np.asarray(data[name], np.float64)
