r"""Log-space arithmetic, states as vectors of numbers, and SciPy at first use.

In log space $-\infty$ is an answer and NaN stays NaN. For states there are four functions, because
a state may hold integers: `flat_reals` turns all numbers into reals, for summaries; `ravel_reals`
is for kernels, which must not move integers; `FlatLayout` turns integers into reals and rounds them
on the way back; `flat_rows` is NumPy, for stacked outputs.
"""

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float

from aide._core.types import Numbers, Parameter, Value

if TYPE_CHECKING:
    from scipy import optimize, special
else:

    class _Later(ModuleType):
        """A module of SciPy that is imported at its first use, which saves `import aide` 0.4 s."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    optimize, special = _Later("scipy.optimize"), _Later("scipy.special")


def scaled_exp(
    log_weights: Float[Array, " num"],
) -> tuple[Float[Array, " num"], Float[Array, ""]]:
    r"""Return $(e^{l_i - m}, m)$ with $m = \max_i l_i$, or $m = 0$ where no maximum is finite.

    All $-\infty$ gives all zeros; one NaN makes the sum of the result NaN.
    """
    peak = jnp.max(log_weights)
    shift = jnp.where(jnp.isfinite(peak), peak, 0.0)
    return jnp.exp(log_weights - shift), shift


def log_mean_exp(log_weights: Float[Array, " num"]) -> Float[Array, ""]:
    r"""$\log \frac1n \sum_i e^{l_i}$; $-\infty$ if all are, NaN if one is."""
    weights, shift = scaled_exp(log_weights)
    return shift + jnp.log(jnp.sum(weights) / log_weights.shape[0])


def computed_once(numbers: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the same bits, which XLA does not compute again wherever they are used.

    XLA repeats cheap computations at every use, and takes divisions to be expensive: this one
    divides by 1.
    """
    return numbers / jnp.where(numbers == numbers, 1.0, numbers)


def as_log(log_value: ArrayLike) -> Array:
    r"""Return a log density, a log weight or $\log\xi$ as real floating-point numbers.

    Raises:
        TypeError: The value is complex, so that its imaginary part would be lost.
    """
    array = jnp.asarray(log_value)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(
            f"a log density must be real, got {array.dtype}. If its imaginary part is 0 by "
            "construction (an FFT, eigenvalues), return jnp.real of it; otherwise look for the "
            "root or logarithm of a negative number."
        )
    return array.astype(float)


def log_ratio(log_numerator: ArrayLike, log_denominator: ArrayLike) -> Array:
    r"""Return $\log (a/b)$, and $-\infty$ where $a = 0$ for every $b$.

    A particle that leaves the support has weight zero even where the density it comes from
    vanishes too ($0/0$). The result is NaN where $a$ is NaN or infinite: no density is infinite.
    """
    numerator = as_log(log_numerator)
    ratio = numerator - as_log(log_denominator)
    ratio = jnp.where(numerator == jnp.inf, jnp.nan, ratio)
    return jnp.where(numerator == -jnp.inf, -jnp.inf, ratio)


def running_log_mean_exp(log_values: np.ndarray) -> np.ndarray:
    r"""Along the last axis, $\log \frac1m \sum_{i \le m} e^{l_i}$ for every prefix $m$ (NumPy)."""
    totals = np.logaddexp.accumulate(log_values, axis=-1)
    return totals - np.log(np.arange(1, log_values.shape[-1] + 1))


def row_log_mean_exp(log_values: np.ndarray) -> np.ndarray:
    r"""Return $\log \frac1m \sum_i e^{l_i}$ of every row (NumPy)."""
    peak = log_values.max(axis=1, keepdims=True)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_values - shift).mean(axis=1)) + shift[:, 0]


def as_parameter(value: Numbers) -> Parameter:
    """Return numbers in the form in which objects keep them: in double precision, as an array.

    A new value of such a number never makes JAX compile again.

    Numbers become Python floats and lists become float64 NumPy arrays, neither of which is
    rounded to float32 outside of `jax.enable_x64`. JAX arrays and tracers are left as they are.
    (JAX 0.10 caches conversions of NumPy arrays without regard to `enable_x64`; zero-dimensional
    ones arrived as float32 inside of it.)
    """
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value, np.float64)
    return float(array) if array.ndim == 0 else array


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
