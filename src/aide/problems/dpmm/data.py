"""Checks of what a caller passes to the model."""

from typing import Any

import numpy as np

from aide._core.jax_compat import is_traced
from aide.problems.dpmm.hyperparameters import NAMES


def as_observations(data: Any) -> Any:
    """A vector of finite numbers in double precision, or an error that names the value."""
    if is_traced(data):
        return data
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"data must be a list of numbers, got {data!r}.") from None
    if array.dtype.kind not in "iuf" or array.ndim != 1 or array.size == 0:
        raise ValueError(f"data must be a list of at least one number, got {data!r}.")
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(f"data must be finite; datum {wrong[0]} is {array[wrong[0]]}.")
    if np.max(np.abs(array)) > 1e100:
        largest = array[np.argmax(np.abs(array))]
        raise ValueError(f"data must be of order 1, got {largest:.6g}: standardise them first.")
    return array


def as_fixed(fixed: Any) -> dict[str, float] | None:
    """All five hyperparameters as floats, or an error that names the wrong one."""
    if fixed is None:
        return None
    if not isinstance(fixed, dict) or set(fixed) != set(NAMES):
        raise ValueError(f"fixed must be a dict of the hyperparameters {NAMES}, got {fixed!r}.")
    for name, number in fixed.items():
        is_number = isinstance(number, int | float | np.number) and np.isfinite(number)
        if not is_number or (name != "m" and number <= 0):
            raise ValueError(
                f"fixed[{name!r}] must be a positive number (m: any number), got {number!r}."
            )
    return {name: float(fixed[name]) for name in NAMES}
