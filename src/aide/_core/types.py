"""Names for the types that appear in signatures."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

Numbers = ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]]
"""A number, or an array or a list of numbers, as a caller writes them."""

Parameter = float | np.ndarray | Array
"""A number or an array of them, as an object keeps them (`aide._core.numerics.as_parameter`)."""

Key = PRNGKeyArray
"""A JAX random key: `jax.random.key(seed)`."""

Value = PyTree[Any]
"""What an inference algorithm returns: one array, or a tuple, dict or list of arrays."""

LogProb = Float[Array, ""]
"""A scalar in log space; larger is more probable; $-\\infty$ is zero density."""

LogDensity = Callable[[Any], Any]
"""A function of one output $x$ that returns a scalar log density, normalised or not."""
