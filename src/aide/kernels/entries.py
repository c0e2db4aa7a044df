r"""Kernels for one entry of a state with several: a dictionary, tuple, list or `NamedTuple`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.versions import ask
from aide.kernels.kernel import (
    AbstractKernel,
    AbstractWrapper,
    AnyKernel,
    reversal_of,
)
from aide.kernels.retrace import Recorded, Retraceable, Retraced, parts_of, weighs_origins


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


def conditional(log_density: LogDensity, state: Value, name: Any) -> LogDensity:
    """The log density as a function of one entry; the other entries are those of `state`."""
    return lambda entry: log_density(with_entry(state, name, entry))


class OnEntry(AbstractWrapper):
    r"""A kernel on one entry of the state, at the entry's conditional density given the rest.

    If the kernel leaves every density invariant, `OnEntry` leaves the joint density invariant.
    A state of integers and reals needs a kernel for each:
    `Cycle(OnEntry("z", GibbsSites(...)), OnEntry("x", RandomWalk(0.5)))`.

    Args:
        name: Which entry: a key of a dictionary, a position in a tuple or list, a position or a
            field's name in a `NamedTuple`.
        kernel: The kernel for that entry.

    Example:
        >>> from aide.kernels import Cycle, GibbsSites, OnEntry, RandomWalk
        >>> kernel = Cycle(
        ...     OnEntry("z", GibbsSites([0], num_values=2)), OnEntry("x", RandomWalk(0.5))
        ... )
        >>> log_joint = lambda s: -0.5 * (s["x"] - 3.0 * s["z"][0]) ** 2
        >>> state = {"z": jnp.array([0]), "x": jnp.zeros(())}
        >>> sorted(kernel.step(jax.random.key(0), log_joint, state))
        ['x', 'z']
    """

    name: str | int = eqx.field(static=True)
    kernel: AnyKernel

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Make a step of the entry, for the density as a function of the entry alone."""
        arguments = conditional(log_density, x, self.name), entry_of(x, self.name)
        return with_entry(x, self.name, self.kernel.step(key, *arguments))

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and the acceptance rates of the entry's kernel."""
        arguments = conditional(log_density, x, self.name), entry_of(x, self.name)
        moved, share = ask(AbstractKernel, self.kernel, "observe_step", key, *arguments)
        return with_entry(x, self.name, moved), share

    def retraceable_parts(self) -> "tuple[EntryRecords, ...]":
        """The kernels that the entry's kernel runs, each on that entry, with their records."""
        return tuple(EntryRecords(self.name, part) for part in parts_of(self.kernel))

    def reversal(self) -> "OnEntry":
        """The reversal of the entry's kernel, on that entry."""
        return OnEntry(self.name, reversal_of(self.kernel))


class EntryRecords(eqx.Module):
    r"""A retraceable kernel on one entry; its records are the records of the entry's kernel.

    The other entries are the same before and after, so that $(y, v, b)$ determines $x$ and the
    Jacobian is that of the entry's kernel.
    """

    name: str | int = eqx.field(static=True)
    kernel: Retraceable

    @property
    def num_branches(self) -> Any:
        """Number of branches of the entry's kernel."""
        return self.kernel.num_branches

    @property
    def weighs_origins(self) -> bool:
        """Whether the entry's kernel weighs origins."""
        return weighs_origins(self.kernel)

    @property
    def reverse_noise_from(self) -> Callable[[Value, LogDensity, Value], Value] | None:
        """The guess from standard normals; `None` if the entry's kernel has no such method."""
        from_white = getattr(self.kernel, "reverse_noise_from", None)
        if from_white is None:
            return None
        return lambda z, log_density, y: from_white(z, *self._arguments(log_density, y))

    def record(self, key: Key, log_density: LogDensity, x: Value) -> Recorded:
        """Make a step of the entry and keep its record."""
        found = self.kernel.record(key, *self._arguments(log_density, x))
        return found._replace(value=with_entry(x, self.name, found.value))

    def reverse_noise(self, key: Key, log_density: LogDensity, y: Value) -> Value:
        r"""Guess $v$ given $y$, as the entry's kernel does."""
        return self.kernel.reverse_noise(key, *self._arguments(log_density, y))

    def retrace(
        self, log_density: LogDensity, y: Value, log_density_y: LogProb, noise: Value
    ) -> Retraced:
        """Undo a step of the entry for every branch; the other entries stay."""
        found = self.kernel.retrace(*self._arguments(log_density, y), log_density_y, noise)
        num = jax.tree.leaves(found.value)[0].shape[0]
        repeat = lambda leaf: jnp.broadcast_to(leaf, (num, *jnp.shape(leaf)))
        value = with_entry(jax.tree.map(repeat, y), self.name, found.value)
        return found._replace(value=value)

    def _arguments(self, log_density: LogDensity, state: Value) -> tuple[LogDensity, Value]:
        """The conditional density and the entry, which the entry's kernel takes."""
        return conditional(log_density, state, self.name), entry_of(state, self.name)
