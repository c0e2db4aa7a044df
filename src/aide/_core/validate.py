"""Checks of arguments; every message names the argument, its value and the fix.

`is_tracing_error` and `check_concrete` are about errors while JAX traces a user's code: they tell
code that cannot be traced from code that is wrong.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from aide._core.jax_compat import is_traced
from aide._core.numerics import as_log

MAX_SIZE = 2**31 - 1
"""Largest number of particles or steps: JAX numbers the entries of an axis with 32 bits."""
LARGEST_RESOLVED = 2.0**49
"""Size from which double precision, with 52 bits, no longer resolves 0.1 nats of a log density."""
UNRESOLVED = (
    "the log density is 5.6e+14 or more in size at an output, where double precision resolves no "
    "differences of 0.1 nats, so that weights and acceptance probabilities mean nothing. Subtract "
    "a constant from the log density, which cancels; without such a constant the output is far "
    "outside of the posterior."
)
_deferred = ContextVar("deferred", default=False)
"""Whether `raise_if` returns NaN instead of raising, because a program is being traced."""


def check_count(name: str, count: int, minimum: int = 1) -> None:
    """Raise unless `count` is an integer of at least `minimum`."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {count!r}.")


def check_size(name: str, count: int, minimum: int = 1) -> None:
    """Raise unless `count` is an integer of at least `minimum` that JAX can number."""
    check_count(name, count, minimum)
    if count > MAX_SIZE:
        raise ValueError(
            f"{name} must be at most {MAX_SIZE}, got {count}: one number for each would take "
            f"{show_bytes(8 * int(count))}."
        )


def check_memory(what: str, num_bytes: int) -> None:
    """Raise if an array cannot fit into the memory of this machine, before anything runs."""
    memory = _memory()
    if memory is not None and num_bytes > memory:
        raise ValueError(
            f"{what} would take {show_bytes(num_bytes)}, and this machine has "
            f"{show_bytes(memory)} of memory. Ask for fewer, or spread them over several calls."
        )


def show_bytes(num_bytes: int) -> str:
    """Return a number of bytes in words, such as `8.8 TB`."""
    size, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"


def _memory() -> int | None:
    """Return the bytes of physical memory; `None` if the system does not state them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def check_scalar(name: str, log_density: Any) -> Array:
    """Return the value of a log density; raise unless it is one real number."""
    if log_density is None or np.shape(log_density) != ():
        raise ValueError(
            f"{name} must return one number per state, got "
            f"{'None' if log_density is None else f'shape {np.shape(log_density)}'}. A log density "
            "of a vector must be summed over its components."
        )
    return as_log(log_density)


def check_positive(name: str, value: ArrayLike) -> None:
    """Raise unless every entry of a concrete `value` is positive and finite."""
    if is_traced(value):
        return
    array = np.asarray(value)
    if not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite, got {value}.")


def check_finite(name: str, value: ArrayLike) -> None:
    """Raise unless every entry of a concrete `value` is a finite number."""
    if not is_traced(value) and not np.all(np.isfinite(np.asarray(value))):
        raise ValueError(f"{name} must be finite, got {value}.")


def raise_if(log_xi: Array, predicate: ArrayLike, message: str) -> Array:
    """Return `log_xi`, or raise a `ValueError` where the predicate holds.

    Under `jax.jit` the compiled code raises (`equinox.error_if`). Inside of `deferred_errors`,
    where the engine traces, the value becomes NaN instead, and the engine repeats the failing run
    outside of `jit`, which raises.
    """
    if not is_traced(predicate):
        if bool(predicate):
            raise ValueError(message)
        return log_xi
    if _deferred.get():
        return jnp.where(predicate, jnp.nan, log_xi)
    return eqx.error_if(log_xi, predicate, message)


def refuse_unresolved(log_xi: Array, log_density: ArrayLike) -> Array:
    """Return `log_xi`; raise if the log density at the output hides differences of 0.1 nats.

    An offset in a log density cancels in the scores of samplers, which cannot show the offset.
    """
    size = jnp.abs(jnp.asarray(log_density))
    return raise_if(log_xi, (size >= LARGEST_RESOLVED) & jnp.isfinite(size), UNRESOLVED)


@contextmanager
def deferred_errors() -> Iterator[None]:
    """Trace with `raise_if` turned into NaN."""
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)


_TRACING_ERRORS = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""Errors of JAX for code that cannot be traced."""
_TRACER_NAMES = ("Tracer", "Traced<", "key<")
"""Names of tracers and JAX keys in messages of `TypeError`s that NumPy and Python raise."""


def is_tracing_error(error: BaseException) -> bool:
    """Whether code failed because JAX traces it: NumPy or Python received a tracer or a JAX key.

    Every other error (a misspelt name, wrong arguments, shapes that do not fit) is a mistake in the
    code, which would fail outside of tracing too.
    """
    if isinstance(error, _TRACING_ERRORS):
        return True
    if isinstance(error, AttributeError):
        owner = getattr(error, "obj", None)
        return isinstance(owner, jax.Array) or is_traced(owner)
    line = (str(error).splitlines() or [""])[0]
    is_mismatch = "does not accept dtypes" in line or "incompatible shapes" in line
    names_tracer = any(name in line for name in _TRACER_NAMES)
    return isinstance(error, TypeError) and names_tracer and not is_mismatch


def check_concrete(what: str, *trees: object) -> None:
    """Raise if the call happens inside of `jax.jit`, `jax.grad` or `jax.vmap`.

    A traced value in the trees shows it. Inside of `jit` a new constant is traced, too, so that
    calls without traced arguments are found as well.
    """
    leaves = [*jax.tree.leaves(trees), jax.numpy.zeros(())]
    if any(is_traced(leaf) for leaf in leaves):
        raise TypeError(
            f"{what} cannot be called inside jax.jit, jax.grad or jax.vmap: it compiles, runs and "
            "checks its programs itself. Call it outside of them."
        )
