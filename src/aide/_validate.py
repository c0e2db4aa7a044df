"""Checks of what a caller passed; every message names the argument, its value and the fix."""

from typing import Any

import jax
import numpy as np


def check_count(name: str, count: Any, minimum: int = 1) -> None:
    """Raise unless `count` is an integer of at least `minimum`."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {count!r}.")


def check_positive(name: str, value: Any) -> None:
    """Raise unless every entry of a concrete `value` is positive and finite."""
    if isinstance(value, jax.core.Tracer):
        return
    array = np.asarray(value)
    if not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite, got {value}.")
