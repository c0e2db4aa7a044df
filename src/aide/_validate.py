"""Checks of what a caller passed; every message names the argument, its value and the fix."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

_deferred = ContextVar("deferred", default=False)


def check_count(name: str, count: Any, minimum: int = 1) -> None:
    """Raise unless `count` is an integer of at least `minimum`."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {count!r}.")


def check_scalar(name: str, log_density: Any) -> Any:
    """The value of a log density; raise unless it is one number."""
    if log_density is None or np.shape(log_density) != ():
        raise ValueError(
            f"{name} must return one number per state, got "
            f"{'None' if log_density is None else f'shape {np.shape(log_density)}'}. A log density "
            "of a vector must be summed over its components."
        )
    return log_density


def check_positive(name: str, value: Any) -> None:
    """Raise unless every entry of a concrete `value` is positive and finite."""
    if isinstance(value, jax.core.Tracer):
        return
    array = np.asarray(value)
    if not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite, got {value}.")


def raise_if(log_xi: Any, predicate: Any, message: str) -> Any:
    """Return `log_xi`, or raise a `ValueError` where the predicate holds.

    Under `jax.jit` the error comes from the compiled code (`equinox.error_if`). The engine defers
    it: the value becomes NaN, and the failing run is repeated outside of `jit` to raise.
    """
    if not isinstance(predicate, jax.core.Tracer):
        if bool(predicate):
            raise ValueError(message)
        return log_xi
    if _deferred.get():
        return jnp.where(predicate, jnp.nan, log_xi)
    return eqx.error_if(log_xi, predicate, message)


@contextmanager
def deferred_errors() -> Iterator[None]:
    """Trace with `raise_if` turned into NaN."""
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)
