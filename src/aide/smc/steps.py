"""Many moves of one kind, compiled once: one move, whose numbers are the inputs of each step."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import numpy as np

from aide._core.distribution import Distribution
from aide._core.types import Value
from aide._core.validate import check_size
from aide._core.versions import KernelUse, ask
from aide.smc.moves import AbstractMove, WeightedMove


class AbstractMoveAt(eqx.Module):
    """Builds the move of one step from that step's inputs, for `Steps`; a function will do, too.

    Example:
        >>> class Tempering(aide.smc.AbstractMoveAt):
        ...     def __call__(self, inputs):
        ...         before, after = inputs
        ...         return aide.smc.Reweight(lambda x: -before * x * x, lambda x: -after * x * x)
        >>> _, log_weight = Tempering()((1.0, 2.0)).forward(jax.random.key(0), 3.0)
        >>> float(log_weight)
        -9.0
    """

    @abstractmethod
    def __call__(self, inputs: Value) -> WeightedMove:
        """Return the move with these inputs."""

    def shortened(self, inputs: Value, num_steps: int) -> "Steps | None":
        """Fewer steps between the same two densities; `None` if that is impossible."""
        return None

    def with_start(self, start: Distribution) -> "AbstractMoveAt | None":
        """The builder in an algorithm with another start; `None` if it cannot tell."""
        return None

    def kernels(self, inputs: Value) -> list[KernelUse] | None:
        """MCMC kernels of the first step; `None` if steps may change the space."""
        return None


class Steps(eqx.Module):
    """A sequence of moves of one kind, compiled once (`lax.scan`) for any number of them.

    Args:
        move_at: Builds the move of one step from that step's inputs.
        inputs: Arrays with a leading step axis (temperatures, observations, …), or `None` together
            with `num_steps` for the same move at every step.
        num_steps: Number of steps; taken from `inputs` if those are given.

    Example:
        >>> tempering = lambda beta: aide.smc.Reweight(
        ...     lambda x: -(beta - 0.1) * x * x, lambda x: -beta * x * x
        ... )
        >>> aide.smc.Steps(tempering, inputs=jnp.linspace(0.1, 1.0, 10)).num_steps
        10
    """

    move_at: Callable[[Any], Any]
    inputs: Value
    num_steps: int = eqx.field(static=True)

    def __init__(
        self,
        move_at: Callable[[Any], Any],
        inputs: Value = None,
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

    def first(self, num: int) -> "Steps":
        """The first `num` steps."""
        if self.inputs is None:
            return Steps(self.move_at, num_steps=num)
        return Steps(self.move_at, jax.tree.map(lambda a: a[:num], self.inputs))

    def shortened(self, num: int) -> "Steps | None":
        """At most `num` steps between the same two densities; `None` if that is impossible."""
        if self.num_steps <= num:
            return self
        return ask(AbstractMoveAt, self.move_at, "shortened", self.inputs, num)

    def with_start(self, start: Distribution) -> "Steps | None":
        """The steps in an algorithm with another start; `None` if the builder cannot tell."""
        move_at = ask(AbstractMoveAt, self.move_at, "with_start", start)
        return None if move_at is None else Steps(move_at, self.inputs, self.num_steps)

    def kernels(self) -> list[KernelUse] | None:
        """MCMC kernels of the first step; `None` if steps may change the space."""
        return ask(AbstractMoveAt, self.move_at, "kernels", self.inputs)


Move = TypeVar("Move")


class Constant(AbstractMoveAt, Generic[Move]):
    """The same move at every step: `Steps(Constant(move), num_steps=10)`.

    Args:
        move: The move.

    Example:
        >>> move = aide.smc.Rejuvenate(aide.kernels.RandomWalk(0.5), lambda x: -x * x)
        >>> aide.smc.Steps(aide.smc.Constant(move), num_steps=10).num_steps
        10
    """

    move: Move

    def __call__(self, inputs: Value) -> Move:
        """Return the move."""
        return self.move

    def shortened(self, inputs: Value, num_steps: int) -> Steps:
        """The move fewer times; the move leads from a density to the same density."""
        return Steps(self, num_steps=num_steps)

    def with_start(self, start: Distribution) -> "Constant | None":
        """The same for the move with that start; `None` if the move cannot tell."""
        move = ask(AbstractMove, self.move, "with_start", start)
        return None if move is None else Constant(move)

    def kernels(self, inputs: Value) -> list[KernelUse] | None:
        """The kernels of the move."""
        return ask(AbstractMove, self.move, "kernels")


def stacked(move: WeightedMove) -> Steps:
    """Run a move whose every array has a leading step axis, one slice per step.

    Args:
        move: A move, all of whose arrays have a leading axis of the same length: the steps.

    Returns:
        `Steps` that run one slice after the other.

    Example:
        >>> class Shift(aide.smc.AbstractMove):
        ...     by: jax.Array
        ...     def forward(self, key, x):
        ...         return x + self.by, jnp.zeros(())
        ...     def backward(self, key, y):
        ...         return y - self.by, jnp.zeros(())
        >>> aide.smc.stacked(Shift(jnp.array([1.0, 2.0, 3.0]))).num_steps
        3
    """
    arrays, static = eqx.partition(move, eqx.is_array)
    return Steps(_Slice(static), arrays)


class _Slice(eqx.Module):
    static: Value

    def __call__(self, arrays: Value) -> WeightedMove:
        return eqx.combine(arrays, self.static)
