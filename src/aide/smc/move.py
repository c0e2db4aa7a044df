r"""What a weighted move is: the one building block of every SMC algorithm here.

A move leads from an unnormalised density $\gamma$ to $\gamma'$ by a forward kernel $k(y; x)$ and
a backward kernel $\ell(x; y)$ with the weight

$$w(x, y) = \frac{\gamma'(y)\,\ell(x; y)}{\gamma(x)\,k(y; x)}.$$

Law of every correct move: $\sum_x \gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)$.
"""

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import equinox as eqx

from aide._core.distribution import Distribution
from aide._core.types import Key, LogProb, Value
from aide._core.versions import KernelUse, ObservedMove


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


class AbstractMove(eqx.Module):
    """A move of this library: it can also be asked what it is made of.

    Moves of users need no base class; `AbstractMove` answers for those that have no such method.
    """

    @abstractmethod
    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Sample $y \sim k(\cdot; x)$; return $y$ and $\log w(x, y)$."""

    @abstractmethod
    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        r"""Sample $x \sim \ell(\cdot; y)$; return $x$ and $\log w(x, y)$."""

    def observe_move(self, key: Key, x: Value) -> ObservedMove:
        """The move that `forward` makes with this key, and what it showed: here nothing."""
        y, log_weight = self.forward(key, x)
        return ObservedMove(y, log_weight)

    def with_start(self, start: Distribution) -> WeightedMove | None:
        """The move of an algorithm that starts elsewhere; `None` if nobody can tell."""
        return None

    def kernels(self) -> list[KernelUse] | None:
        """MCMC kernels in it with their densities; `None` if it may lead to another space."""
        return None
