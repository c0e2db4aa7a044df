"""Names for the types that appear in signatures."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Key = PRNGKeyArray
"""A JAX random key: `jax.random.key(seed)`."""

Value = PyTree[Any]
"""What an inference algorithm returns: one array, or a tuple, dict or list of arrays."""

LogProb = Float[Array, ""]
"""A scalar in log space; larger is more probable; $-\\infty$ is zero density."""

LogDensity = Callable[[Any], Any]
"""A function of one output $x$ that returns a scalar log density, normalised or not."""
