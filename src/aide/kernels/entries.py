r"""Kernels for one entry of a state that has several: a dictionary, tuple, list or `NamedTuple`."""

from typing import Any

import equinox as eqx
from jaxtyping import Array

from aide._core.types import Key, LogDensity, Value
from aide._core.versions import ask
from aide.kernels.kernel import (
    AbstractCompound,
    AbstractKernel,
    AnyKernel,
    check_instance,
    reversal_of,
)


def entry_of(state: Value, name: Any) -> Value:
    """One entry of a state."""
    return getattr(state, name) if _is_field(state, name) else state[name]


def with_entry(state: Value, name: Any, new: Value) -> Value:
    """The state with another value for one entry."""
    if isinstance(state, dict):
        return {**state, name: new}
    if _is_field(state, name):
        return state._replace(**{name: new})
    parts = list(state)
    parts[name] = new
    return state._make(parts) if hasattr(state, "_make") else type(state)(parts)


def _is_field(state: Value, name: Any) -> bool:
    return isinstance(name, str) and not isinstance(state, dict)


class OnEntry(AbstractCompound):
    r"""A kernel on one entry of the state, at the entry's conditional density given the rest.

    If the kernel leaves every density it is given invariant, this leaves the joint one invariant.
    A state of integers and reals needs a kernel for each:
    `Cycle(OnEntry("z", GibbsSites(...)), OnEntry("x", RandomWalk(0.5)))`.

    Args:
        name: Which entry: a key of a dictionary, a position in a tuple or list, a position or a
            field's name in a `NamedTuple`.
        kernel: The kernel for that entry.
    """

    name: str | int = eqx.field(static=True)
    kernel: AnyKernel

    def __check_init__(self) -> None:
        check_instance(self.kernel)

    def components(self) -> tuple[AnyKernel, ...]:
        """The entry's kernel."""
        return (self.kernel,)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Make a step of the entry, for the density as a function of the entry alone."""
        log_conditional = self._conditional(log_density, x)
        moved = self.kernel.step(key, log_conditional, entry_of(x, self.name))
        return with_entry(x, self.name, moved)

    def _conditional(self, log_density: LogDensity, x: Value) -> LogDensity:
        return lambda entry: log_density(with_entry(x, self.name, entry))

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and what the entry's kernel accepted."""
        log_conditional = self._conditional(log_density, x)
        arguments = (key, log_conditional, entry_of(x, self.name))
        moved, share = ask(AbstractKernel, self.kernel, "observe_step", *arguments)
        return with_entry(x, self.name, moved), share

    def reversal(self) -> "OnEntry":
        """The reversal of the entry's kernel, on that entry."""
        return OnEntry(self.name, reversal_of(self.kernel))
