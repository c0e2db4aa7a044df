"""What is asked of a compiled Stan model, and its calls for many points at once."""

from collections.abc import Callable
from threading import Lock
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_lock = Lock()
"""A model without STAN_THREADS keeps its derivatives in one place: one call at a time."""


class StanModel(Protocol):
    """A model as BridgeStan has it; what it calls `propto` is whether constants are dropped."""

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Names of the scalars, such as `theta.1`; transformed ones and generated ones too."""
        ...

    def param_unc_num(self) -> int:
        """Length of the unconstrained vector."""
        ...

    def param_constrain(self, theta_unc: np.ndarray) -> np.ndarray:
        """Values on the scale of the model, in the order of `param_names`."""
        ...

    def param_unconstrain(self, theta: np.ndarray) -> np.ndarray:
        """The unconstrained vector of such values."""
        ...

    def log_density(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> float:
        """The log density of an unconstrained vector."""
        ...

    def log_density_gradient(
        self, theta_unc: np.ndarray, *, propto: bool = True, jacobian: bool = True
    ) -> tuple[float, np.ndarray]:
        """The same, and its gradient."""
        ...


class StanCalls:
    """Calls of a Stan model that JAX can trace; of a batch, all points in one callback.

    What Stan rejects (`reject`, a scale that is not positive or not finite) has density 0, as for
    its own samplers.

    Args:
        model: The model.
        propto: Whether the log density leaves out constants.
    """

    def __init__(self, model: StanModel, propto: bool):
        self.model, self.propto = model, propto
        self.dimension = model.param_unc_num()
        self.num_values = len(model.param_names())
        self._log_density = jax.custom_jvp(self._value)
        self._log_density.defjvp(self._slope)

    def log_density(self, x: Float[Array, " d"]) -> Array:
        """With the Jacobian; has a gradient, and no second derivatives."""
        return self._log_density(x)

    def log_density_without_jacobian(self, x: Float[Array, " d"]) -> Array:
        """On the scale of the model; has no gradient."""
        return _call(self._score(jacobian=False), (), x)

    def constrain(self, x: Float[Array, " d"]) -> Array:
        """Values on the scale of the model; has no gradient."""
        return _call(lambda row: self.model.param_constrain(row), (self.num_values,), x)

    def unconstrain(self, values: Array) -> Array:
        """The way back; NaN where Stan refuses."""

        def move(row: np.ndarray) -> np.ndarray:
            try:
                return self.model.param_unconstrain(row)
            except (RuntimeError, ValueError):
                return np.full(self.dimension, np.nan)

        return _call(move, (self.dimension,), values)

    def _value(self, x: Array) -> Array:
        return _call(self._score(jacobian=True), (), x)

    def _slope(self, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        def both(row: np.ndarray) -> np.ndarray:
            try:
                value, gradient = self.model.log_density_gradient(row, propto=self.propto)
            except (RuntimeError, ValueError):
                value, gradient = -np.inf, np.zeros(self.dimension)
            return np.concatenate([[value], gradient])

        found = _call(both, (1 + self.dimension,), primals[0])
        return found[0], found[1:] @ tangents[0]

    def _score(self, jacobian: bool) -> Callable[[np.ndarray], float]:
        def score(row: np.ndarray) -> float:
            try:
                return self.model.log_density(row, propto=self.propto, jacobian=jacobian)
            except (RuntimeError, ValueError):
                return -np.inf

        return score


def _call(
    function: Callable[[np.ndarray], float | np.ndarray], shape: tuple[int, ...], x: Array
) -> Array:
    """`function` of a vector, by a callback; under `vmap`, of every row of the batch in turn."""

    def loop(batch: Array) -> np.ndarray:
        rows = np.asarray(batch, np.float64)
        with _lock:
            found = [
                np.asarray(function(row), np.float64) for row in rows.reshape(-1, rows.shape[-1])
            ]
        return np.reshape(found, (*rows.shape[:-1], *shape)).astype(kind)

    kind = jnp.asarray(0.0).dtype
    return jax.pure_callback(
        loop, jax.ShapeDtypeStruct(shape, kind), x, vmap_method="broadcast_all"
    )
