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


RowFunction = Callable[[np.ndarray], float | np.ndarray]
"""A function of the model at one point."""


class StanCalls:
    """Calls of a Stan model that JAX can trace; of a batch, all points in one callback.

    What Stan rejects (`reject`, a scale that is not positive or not finite) has density 0, as for
    its own samplers.

    Args:
        model: The model.
        propto: Whether the log density leaves out constants.

    `aide_identity`, once it is set, states which model and data the callbacks belong to.
    """

    def __init__(self, model: StanModel, propto: bool):
        self.model, self.propto = model, propto
        self.dimension = model.param_unc_num()
        self.num_values = len(model.param_names())
        self._run: Here = getattr(model, "run", _directly)
        self.aide_identity = ""
        self._log_density = jax.custom_jvp(self._value)
        self._log_density.defjvp(self._slope)

    def log_density(self, x: Float[Array, " d"]) -> Array:
        """With the Jacobian; has a gradient, and no second derivatives."""
        return self._log_density(x)

    def log_density_without_jacobian(self, x: Float[Array, " d"]) -> Array:
        """On the scale of the model; has no gradient."""
        return self._call("log density without Jacobian", self._score(jacobian=False), (), x)

    def constrain(self, x: Float[Array, " d"]) -> Array:
        """Values on the scale of the model; has no gradient."""
        return self._call(
            "constrain", lambda row: self.model.param_constrain(row), (self.num_values,), x
        )

    def unconstrain(self, values: Array) -> Array:
        """The way back; NaN where Stan refuses."""

        def move(row: np.ndarray) -> np.ndarray:
            try:
                return self.model.param_unconstrain(row)
            except (RuntimeError, ValueError):
                return np.full(self.dimension, np.nan)

        return self._call("unconstrain", move, (self.dimension,), values)

    def _value(self, x: Array) -> Array:
        return self._call("log density", self._score(jacobian=True), (), x)

    def _slope(self, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        def both(row: np.ndarray) -> np.ndarray:
            try:
                value, gradient = self.model.log_density_gradient(row, propto=self.propto)
            except (RuntimeError, ValueError):
                value, gradient = -np.inf, np.zeros(self.dimension)
            return np.concatenate([[value], gradient])

        found = self._call("log density and gradient", both, (1 + self.dimension,), primals[0])
        return found[0], found[1:] @ tangents[0]

    def _call(self, what: str, function: RowFunction, shape: tuple[int, ...], x: Array) -> Array:
        """`function` of a vector, by a callback that states which model and function it calls."""
        stated = f"{what} of {self.aide_identity}" if self.aide_identity else None
        return _call(self._run, function, shape, x, stated)

    def _score(self, jacobian: bool) -> Callable[[np.ndarray], float]:
        def score(row: np.ndarray) -> float:
            try:
                return self.model.log_density(row, propto=self.propto, jacobian=jacobian)
            except (RuntimeError, ValueError):
                return -np.inf

        return score


Here = Callable[[Callable[[], np.ndarray]], np.ndarray]
"""Does some work where the model wants it done."""


def _directly(work: Callable[[], np.ndarray]) -> np.ndarray:
    return work()


def _call(
    run: Here, function: RowFunction, shape: tuple[int, ...], x: Array, stated: str | None
) -> Array:
    """`function` of a vector, by a callback; under `vmap`, of every row of the batch in turn.

    Numbers travel as the words they are made of: the thread that calls back does not know about
    `jax.enable_x64`, and JAX would round doubles on the way in and out.
    """
    x = jnp.asarray(x, float)
    kind = np.dtype(x.dtype)
    words = (kind.itemsize // 4,)

    def loop(batch: Array) -> np.ndarray:
        numbers = np.asarray(batch).view(kind)[..., 0]
        rows = numbers.reshape(-1, numbers.shape[-1]).astype(np.float64)
        with _lock:
            found = run(lambda: np.array([function(row) for row in rows]))
        shaped = np.reshape(found, (*numbers.shape[:-1], *shape)).astype(kind)
        return np.ascontiguousarray(shaped[..., None]).view(np.uint32)

    if stated is not None:
        loop.aide_identity = stated  # pyrefly: ignore[missing-attribute]
    sent = jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(*x.shape, *words)
    back = jax.ShapeDtypeStruct((*shape, *words), jnp.uint32)
    received = jax.pure_callback(loop, back, sent, vmap_method="broadcast_all")
    if words == (1,):
        received = received[..., 0]
    return jax.lax.bitcast_convert_type(received, kind)
