"""Kernels of any origin as objects with `step(key, log_density, x)`, and their claims."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax

from aide._core.types import Key, LogDensity, Value
from aide.kernels.kernel import AbstractKernel, lacks_reversal

Transition = Callable[..., Value]
"""A transition by hand: `step(key, x)` or `step(key, log_density, x)`."""


class StateAlgorithm(Protocol):
    """A sampler with a state of its own, as in BlackJAX."""

    init: Callable[..., Any]
    step: Callable[..., Any]


class FunctionKernel(eqx.Module):
    """A hand-written transition: `step(key, x)` or `step(key, log_density, x)`."""

    function: Transition
    takes_density: bool = eqx.field(static=True)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Call the function."""
        return self.function(key, log_density, x) if self.takes_density else self.function(key, x)


class StateKernel(eqx.Module):
    """A kernel on positions from `init(x)` and `step(key, state)`, as in BlackJAX.

    Each step starts from a new state: its other entries, such as a momentum, are initialised.
    """

    algorithm: StateAlgorithm

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Initialise, step, return the new position."""
        key_init, key_step = jax.random.split(key)
        takes_key = "rng_key" in inspect.signature(self.algorithm.init).parameters
        options = {"rng_key": key_init} if takes_key else {}
        state, _ = self.algorithm.step(key_step, self.algorithm.init(x, **options))
        return state.position


def as_kernel(name: str, kernel: Any) -> Any:
    """An object with `step(key, log_density, x)`."""
    step = getattr(kernel, "step", None)
    if callable(step) and callable(getattr(kernel, "init", None)):
        return StateKernel(kernel)
    if callable(step) and not isinstance(kernel, type):
        if callable(getattr(kernel, "reversal", None)) or _num_arguments(step) == 3:
            return kernel
        return FunctionKernel(step, False)
    if callable(kernel) and _num_arguments(kernel) in (2, 3):
        return FunctionKernel(kernel, _num_arguments(kernel) == 3)
    raise TypeError(
        f"{name} must be an aide kernel, a function step(key, x) or step(key, log_density, x), or "
        f"an algorithm with init(x) and step(key, state) as in BlackJAX, got {kernel!r}."
    )


def claimed_reversal(kernel: Any, adapted: Any, reversal: Any) -> Any:
    """The kernel that claims to reverse `adapted`: `adapted` itself if it claims to be reversible.

    `None` without a claim: for `reversal=False`, and for an aide kernel without a reversal.
    """
    if reversal is False:
        return None
    if reversal is None:
        if isinstance(kernel, AbstractKernel) and lacks_reversal(kernel) is not None:
            return None
        stated = getattr(kernel, "reversal", None)
        if not callable(stated):
            return adapted
        reversal = stated()
    if reversal is kernel:
        return adapted
    other = as_kernel("reversal", reversal)
    return adapted if eqx.tree_equal(adapted, other) is True else other


def kernel_name(kernel: Any) -> str:
    """A short name for reports."""
    if isinstance(kernel, StateKernel):
        module = getattr(kernel.algorithm.step, "__module__", "")
        return f"{module.split('.')[0]} kernel".strip()
    if isinstance(kernel, FunctionKernel):
        return getattr(kernel.function, "__name__", "kernel")
    return type(kernel).__name__


def _num_arguments(function: Callable[..., Any]) -> int | None:
    """Arguments without a default; `None` where Python cannot say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return sum(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )
