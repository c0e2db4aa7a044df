"""States as vectors of numbers, and vectors as states.

There are four functions, because a state may hold integers: `flat_reals` turns all numbers into
reals, for summaries; `ravel_reals` is for kernels, which must not move integers; `FlatLayout`
turns integers into reals and rounds them on the way back; `flat_rows` is NumPy, for stacked
outputs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from aide._core.types import Value


def flat_reals(tree: Value) -> Float[Array, " d"]:
    """Return all numbers of a tree, integers too, as one vector of reals."""
    leaves = [jnp.ravel(jnp.asarray(leaf)).astype(float) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate([jnp.zeros(0, float), *leaves])


def ravel_reals(x: Value) -> tuple[Array, Callable[[Array], Value]]:
    """Return a real-valued state as a vector, and the function from vectors to states.

    `ravel_pytree` promotes integers to reals and truncates them on the way back: a kernel would
    move integers, and they would follow no density.

    Raises:
        TypeError: Some part of the state is not real.
    """
    kinds = {str(jnp.result_type(leaf)) for leaf in jax.tree.leaves(x)}
    if not all(jnp.issubdtype(kind, jnp.floating) for kind in kinds):
        raise TypeError(
            f"this kernel moves real-valued states, got {' and '.join(sorted(kinds))}. Use "
            "GibbsSites, FiniteNoise or a kernel of your own for discrete states; where integers "
            "and reals are entries of one state, give each entry its kernel: aide.kernels.Cycle("
            "aide.kernels.OnEntry('z', aide.kernels.GibbsSites(...)), "
            "aide.kernels.OnEntry('x', kernel))."
        )
    return ravel_pytree(x)


def all_finite(tree: Value) -> Array:
    """Whether no number of a state is infinite or NaN."""
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


class FlatLayout:
    """How a state of real numbers or integers becomes a vector of floats, and back.

    Args:
        example: A state, for its structure.
    """

    def __init__(self, example: Value):
        self._types = jax.tree.map(lambda leaf: jnp.asarray(leaf).dtype, example)
        self.flat, self._unravel = self._ravel(example)

    def ravel(self, value: Value) -> Float[Array, " d"]:
        """Return a state as a vector."""
        return self._ravel(value)[0]

    def unravel(self, flat: Float[Array, " d"]) -> Value:
        """Return a vector as a state; integers are rounded."""
        restore = lambda leaf, dtype: (
            leaf if jnp.issubdtype(dtype, jnp.floating) else jnp.round(leaf).astype(dtype)
        )
        return jax.tree.map(restore, self._unravel(flat), self._types)

    def _ravel(self, value: Value) -> tuple[Array, Any]:
        return ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), value))


def flat_rows(values: Value, num_axes: int = 1) -> np.ndarray:
    """Return all numbers of stacked values as reals: the leading axes, then one of coordinates.

    Args:
        values: A tree of arrays with the same leading axes.
        num_axes: Number of leading axes: 1 for outputs, 2 for chains of draws.
    """
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(values)]
    rows = [leaf.reshape(*leaf.shape[:num_axes], -1) for leaf in leaves]
    return np.concatenate(rows, axis=num_axes)
