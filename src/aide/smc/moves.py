r"""Weighted moves, the building blocks of every SMC algorithm: protocols and the moves themselves.

A move leads from an unnormalised density $\gamma$ to $\gamma'$ by a forward kernel $k(y; x)$ and
a backward kernel $\ell(x; y)$ with the weight

$$w(x, y) = \frac{\gamma'(y)\,\ell(x; y)}{\gamma(x)\,k(y; x)}.$$

Law of every correct move: $\sum_x \gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)$.
"""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp

from aide._core.distribution import Distribution
from aide._core.numerics import log_ratio
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, LogProb, Value
from aide._core.versions import KernelUse, ObservedMove, ask
from aide.kernels.kernel import AnyKernel, InvariantKernel, observe_kernel, reversal_of


class ForwardMove(Protocol):
    """The method of a move that the forward pass calls."""

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Sample $y \sim k(\cdot; x)$; return $y$ and $\log w(x, y)$."""
        ...


@runtime_checkable
class WeightedMove(ForwardMove, Protocol):
    r"""Both methods handle one particle and compute the same $w(x, y)$.

    A move from $\gamma$ to $\gamma'$ obeys
    $\sum_x \gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)$. No base class is needed.

    Example:
        >>> class Double:  # from the density of x to that of y = 2 x: nothing is random
        ...     def forward(self, key, x):
        ...         return 2 * x, jnp.zeros(())
        ...     def backward(self, key, y):
        ...         return y / 2, jnp.zeros(())
        >>> isinstance(Double(), aide.smc.WeightedMove)
        True
    """

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""Sample $x \sim \ell(\cdot; y)$; return $x$ and $\log w(x, y)$."""
        ...


class AbstractMove(eqx.Module):
    """A move of this library, which can also list its kernels and change its start.

    Moves of users need no base class: where a method is missing, that of `AbstractMove` is used.

    Example:
        >>> move = aide.smc.Reweight(lambda x: -x * x, lambda x: -2 * x * x)
        >>> isinstance(move, aide.smc.AbstractMove), move.kernels()
        (True, [])
    """

    @abstractmethod
    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Sample $y \sim k(\cdot; x)$; return $y$ and $\log w(x, y)$."""

    @abstractmethod
    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""Sample $x \sim \ell(\cdot; y)$; return $x$ and $\log w(x, y)$."""

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """The move that `forward` makes with this key, without diagnostics."""
        y, log_weight = self.forward(key, x)
        return ObservedMove(y, log_weight)

    def with_start(self, start: Distribution) -> WeightedMove | None:
        """The move in an algorithm with another start; `None` if the move cannot tell."""
        return None

    def kernels(self) -> list[KernelUse] | None:
        """MCMC kernels of the move, with their densities; `None` if the space may change."""
        return None


@runtime_checkable
class KernelMove(WeightedMove, Protocol):
    r"""A kernel that leaves `log_density` invariant, then a weight that depends on $y$ alone.

    Example:
        >>> move = aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.5), lambda x: -x * x)
        >>> isinstance(move, aide.smc.KernelMove)
        True
    """

    @property
    def kernel(self) -> AnyKernel:
        """The kernel."""
        ...

    @property
    def log_density(self) -> LogDensity:
        r"""$\log\gamma$, which the kernel leaves invariant."""
        ...

    def log_weight(self, y: Value) -> LogProb:
        r"""$\log w(y)$."""
        ...


class Reweight(AbstractMove):
    r"""Stay at $x$ and change the density: $w = \gamma'(x)/\gamma(x)$.

    Args:
        log_from: $\log\gamma$.
        log_to: $\log\gamma'$.

    Example:
        >>> move = aide.smc.Reweight(lambda x: -x * x, lambda x: -2 * x * x)
        >>> x, log_weight = move.forward(jax.random.key(0), 3.0)
        >>> x, float(log_weight)
        (3.0, -9.0)
    """

    log_from: LogDensity
    log_to: LogDensity

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""$x$ and $\log\gamma'(x) - \log\gamma(x)$."""
        return x, log_ratio(self.log_to(x), self.log_from(x))

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        """Return the same as `forward`: nothing moves."""
        return self.forward(key, y)

    def kernels(self) -> list[KernelUse]:
        """Return no kernels."""
        return []


class Rejuvenate(AbstractMove):
    r"""A kernel that leaves $\gamma$ invariant; backward is its reversal, so that $w = 1$.

    Args:
        kernel: A kernel with a reversal.
        log_density: $\log\gamma$.

    Example:
        >>> move = aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.5), lambda x: -x * x)
        >>> _, log_weight = move.forward(jax.random.key(0), jnp.zeros(()))
        >>> float(log_weight)
        0.0
    """

    kernel: InvariantKernel
    log_density: LogDensity

    def __check_init__(self) -> None:
        reversal_of(self.kernel)  # a kernel without a reversal is an error here, not in a run

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""$y \sim K(x, \cdot)$ and $\log 1$."""
        return self.kernel.step(key, self.log_density, x), jnp.zeros(())

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""$x \sim \tilde K(y, \cdot)$ and $\log 1$."""
        return reversal_of(self.kernel).step(key, self.log_density, y), jnp.zeros(())

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """The step, with its acceptance rates and its squared jump."""
        return observe_kernel(key, self.kernel, self.log_density, x)

    def log_weight(self, y: Value) -> LogProb:
        r"""$\log 1$."""
        return jnp.zeros(())

    def with_start(self, start: Distribution) -> "Rejuvenate":
        """The move itself: its density does not depend on the start."""
        return self

    def kernels(self) -> list[KernelUse]:
        """The kernel."""
        return [(self.kernel, self.log_density)]


class Composition(AbstractMove):
    """Moves one after another, as one move: backward runs them in reverse order, weights add.

    Args:
        *parts: The moves, in the order in which they run forward.

    Example:
        >>> flat, round_ = lambda x: 0.0 * x, lambda x: -x * x
        >>> move = aide.smc.Composition(
        ...     aide.smc.Reweight(flat, round_),
        ...     aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.5), round_),
        ... )
        >>> y, log_weight = move.forward(jax.random.key(0), jnp.array(2.0))
        >>> float(log_weight)
        -4.0
    """

    parts: tuple[WeightedMove, ...]

    def __init__(self, *parts: WeightedMove):
        if not parts:
            raise ValueError("Composition needs at least one move, got none.")
        self.parts = parts

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Part after part; $\log w = \sum_i \log w_i$."""
        total = jnp.zeros(())
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            x, log_w = part.forward(subkey, x)
            total = total + log_w
        return x, total

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""The parts from last to first, each backward; $\log w = \sum_i \log w_i$."""
        total = jnp.zeros(())
        keys = derive_keys(key, len(self.parts))
        for part, subkey in zip(reversed(self.parts), keys, strict=True):
            y, log_w = part.backward(subkey, y)
            total = total + log_w
        return y, total

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """All parts in order, with the acceptance rates of each."""
        total, shares = jnp.zeros(()), list[Any]()
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            moved = ask(AbstractMove, part, "observe_move", subkey, x)
            x, total = moved.value, total + moved.log_weight
            shares += [] if moved.acceptance is None else [moved.acceptance]
        return ObservedMove(x, total, jnp.concatenate(shares) if shares else None)

    def kernels(self) -> list[KernelUse] | None:
        """The kernels of all parts; `None` if a part may change the space."""
        found = list[KernelUse]()
        for part in self.parts:
            uses = ask(AbstractMove, part, "kernels")
            if uses is None:
                return None
            found += uses
        return found
