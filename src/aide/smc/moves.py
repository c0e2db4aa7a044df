r"""Weighted moves: the one building block of every SMC algorithm here.

A move leads from an unnormalised density $\gamma$ to $\gamma'$ by a forward kernel $k(y; x)$ and
a backward kernel $\ell(x; y)$ with the weight

$$w(x, y) = \frac{\gamma'(y)\,\ell(x; y)}{\gamma(x)\,k(y; x)}.$$

Law of every correct move: $\sum_x \gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)$.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from aide._core.numerics import log_ratio
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.validate import check_size
from aide.kernels.kernel import AbstractKernel, reversal_of


class ForwardMove(Protocol):
    """What the forward pass needs of a move."""

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Sample $y \sim k(\cdot; x)$; return $y$ and $\log w(x, y)$."""
        ...


@runtime_checkable
class WeightedMove(ForwardMove, Protocol):
    r"""Both methods handle one particle and compute the same $w(x, y)$."""

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""Sample $x \sim \ell(\cdot; y)$; return $x$ and $\log w(x, y)$."""
        ...


@runtime_checkable
class KernelMove(WeightedMove, Protocol):
    r"""A kernel that leaves `log_density` invariant, then a weight that depends on $y$ alone."""

    @property
    def kernel(self) -> Any:
        """The kernel."""
        ...

    @property
    def log_density(self) -> LogDensity:
        r"""$\log\gamma$, which the kernel leaves invariant."""
        ...

    def log_weight(self, y: Value) -> LogProb:
        r"""$\log w(y)$."""
        ...


class Reweight(eqx.Module):
    r"""Stay at $x$ and change the density: $w = \gamma'(x)/\gamma(x)$."""

    log_from: LogDensity
    log_to: LogDensity

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        return x, log_ratio(self.log_to(x), self.log_from(x))

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        return self.forward(key, y)


class Rejuvenate(eqx.Module):
    r"""A kernel that leaves $\gamma$ invariant; backward is its reversal, so that $w = 1$."""

    kernel: AbstractKernel
    log_density: LogDensity

    def __check_init__(self) -> None:
        reversal_of(self.kernel)  # a kernel without a reversal is an error here, not in a run

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        return self.kernel.step(key, self.log_density, x), jnp.zeros(())

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        return reversal_of(self.kernel).step(key, self.log_density, y), jnp.zeros(())

    def log_weight(self, y: Value) -> LogProb:
        """See `KernelMove`: nothing is weighed."""
        return jnp.zeros(())


class Composition(eqx.Module):
    """Moves one after another, as one move: backward runs them in reverse order, weights add."""

    parts: tuple[WeightedMove, ...]

    def __init__(self, *parts: WeightedMove):
        if not parts:
            raise ValueError("Composition needs at least one move, got none.")
        self.parts = parts

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        total = jnp.zeros(())
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            x, log_w = part.forward(subkey, x)
            total = total + log_w
        return x, total

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        """See `WeightedMove`."""
        total = jnp.zeros(())
        keys = derive_keys(key, len(self.parts))
        for part, subkey in zip(reversed(self.parts), keys, strict=True):
            y, log_w = part.backward(subkey, y)
            total = total + log_w
        return y, total


class Steps(eqx.Module):
    """A run of moves of one kind, compiled once (`lax.scan`) however many there are.

    Args:
        move_at: Builds the move of one step from that step's inputs.
        inputs: Arrays with a leading step axis (temperatures, observations, …), or `None` together
            with `num_steps` for the same move again and again.
        num_steps: Number of steps; taken from `inputs` if those are given.
    """

    move_at: Callable[[Any], Any]
    inputs: Any
    num_steps: int = eqx.field(static=True)

    def __init__(
        self,
        move_at: Callable[[Any], Any],
        inputs: Any = None,
        num_steps: int | None = None,
    ):
        lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(inputs)}
        if num_steps is not None:
            check_size("num_steps", num_steps, 0)
            lengths.add((num_steps,))
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                "inputs and num_steps must agree on one number of steps, got leading axes "
                f"{sorted(lengths)}: give every array of `inputs` the same leading axis."
            )
        self.move_at, self.inputs, (self.num_steps,) = move_at, inputs, lengths.pop()


Move = TypeVar("Move")


class Constant(eqx.Module, Generic[Move]):
    """The same move at every step: `Steps(Constant(move), num_steps=10)`."""

    move: Move

    def __call__(self, _: Any) -> Move:
        """Return the move."""
        return self.move


def stacked(move: WeightedMove) -> Steps:
    """Run a move whose every array has a leading step axis, one slice per step."""
    arrays, static = eqx.partition(move, eqx.is_array)
    return Steps(_Slice(static), arrays)


class _Slice(eqx.Module):
    static: Any

    def __call__(self, arrays: Any) -> WeightedMove:
        return eqx.combine(arrays, self.static)
