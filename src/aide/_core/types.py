"""Names of the types that appear in signatures, and the two roles of an estimate."""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

Numbers = ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]]
"""A number, or an array or a list of numbers, as a caller writes them."""

Parameter = float | np.ndarray | Array
"""A number or an array of numbers, in the form in which objects keep them (`as_parameter`)."""

Key = PRNGKeyArray
"""A JAX random key: `jax.random.key(seed)`."""

Value = PyTree[Any]
"""What an inference algorithm returns: one array, or a tuple, dict or list of arrays."""

LogProb = Float[Array, ""]
"""A scalar in log space; larger is more probable; $-\\infty$ is zero density."""

LogDensity = Callable[[Any], Any]
"""A function of one output $x$ that returns a scalar log density, normalised or not."""


class Role(IntEnum):
    """Which of the two algorithms of an estimate made a run; a part of the key of the run."""

    GOLD = 0
    TARGET = 1

    @property
    def word(self) -> str:
        """`gold` or `target`, as in messages and settings."""
        return self.name.lower()

    @property
    def other(self) -> "Role":
        """The other role."""
        return Role(1 - self)


GOLD = Role.GOLD
"""The gold standard, the algorithm that is trusted."""
TARGET = Role.TARGET
"""The target, the algorithm that is measured."""


def as_role(name: str) -> Role:
    """Return the role that a public argument names.

    Raises:
        ValueError: The name is neither `gold` nor `target`.
    """
    for role in Role:
        if name == role.word:
            return role
    raise ValueError(f"role must be 'gold' or 'target', got {name!r}.")
