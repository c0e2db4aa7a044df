r"""MCMC kernels and their reversals.

A kernel $K$ that leaves $\gamma$ invariant has the *reversal* $\tilde K$ with
$\gamma(x) K(x, y) = \gamma(y) \tilde K(y, x)$. A reversible kernel is its own; the reversal of
$K_1$ then $K_2$ is $\tilde K_2$ then $\tilde K_1$. Meta-inference runs reversals.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_size


class AbstractKernel(eqx.Module):
    r"""One transition $x \to y$ that leaves `log_density` invariant.

    The density is an argument, so that one kernel serves every temperature of an annealing path.
    """

    @abstractmethod
    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Sample $y \sim K(x, \cdot)$."""

    @abstractmethod
    def reversal(self) -> "AbstractKernel":
        r"""The kernel $\tilde K$ with $\gamma(x) K(x, y) = \gamma(y) \tilde K(y, x)$."""


class Kernel(AbstractKernel):
    """A kernel from a function `step(key, log_density, x) -> y`, yours or another library's.

    Args:
        transition: The transition; must leave `log_density` invariant.
        reversible: Say `True` if it satisfies detailed balance.
        backward: The reversal's transition, for a kernel that does not.
    """

    transition: Callable[[Key, LogDensity, Value], Value]
    reversible: bool = eqx.field(static=True, default=False)
    backward: Callable[[Key, LogDensity, Value], Value] | None = None

    def __check_init__(self) -> None:
        if self.reversible == (self.backward is not None):
            raise ValueError(
                f"a kernel is either reversible or needs its reversal, got reversible="
                f"{self.reversible} and backward={self.backward}. Say reversible=True if it "
                "satisfies detailed balance; otherwise pass backward=, the transition with "
                "gamma(x) K(x, y) = gamma(y) backward(y, x) (for a sweep: the same updates in "
                "reverse order)."
            )

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """See `AbstractKernel`."""
        return self.transition(key, log_density, x)

    def reversal(self) -> AbstractKernel:
        """See `AbstractKernel`."""
        if self.backward is None:
            return self
        return Kernel(self.backward, backward=self.transition)


class Cycle(AbstractKernel):
    """Kernels one after another; the reversal runs their reversals in reverse order."""

    parts: tuple[AbstractKernel, ...]

    def __init__(self, *parts: AbstractKernel):
        if not parts:
            raise ValueError("Cycle needs at least one kernel, got none.")
        for part in parts:
            check_instance(part)
        self.parts = parts

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """See `AbstractKernel`."""
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            x = part.step(subkey, log_density, x)
        return x

    def reversal(self) -> AbstractKernel:
        """See `AbstractKernel`."""
        return Cycle(*(reversal_of(part) for part in reversed(self.parts)))


class Repeat(AbstractKernel):
    """The same kernel `num_times` in a row."""

    kernel: AbstractKernel
    num_times: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_instance(self.kernel)
        check_size("num_times", self.num_times, 0)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """See `AbstractKernel`."""

        def body(index: Any, x: Value) -> Value:
            return self.kernel.step(derive(key, index), log_density, x)

        return jax.lax.fori_loop(0, self.num_times, body, jax.tree.map(jnp.asarray, x))

    def reversal(self) -> AbstractKernel:
        """See `AbstractKernel`."""
        return Repeat(reversal_of(self.kernel), self.num_times)


def check_instance(kernel: Any) -> None:
    """Raise for a class in the place of a kernel."""
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel must be an instance, got the class {kernel.__name__}: write "
            f"{kernel.__name__}(...) with its settings."
        )


def reversal_of(kernel: Any) -> AbstractKernel:
    """The kernel's reversal, or an error that says how to state it."""
    check_instance(kernel)
    reversal = getattr(kernel, "reversal", None)
    if not callable(reversal) or not callable(getattr(kernel, "step", None)):
        raise ValueError(
            f"{type(kernel).__name__} has no reversal, which meta-inference needs. Wrap its step: "
            "aide.kernels.Kernel(step, reversible=True) if it satisfies detailed balance, "
            "aide.kernels.Kernel(step, backward=reverse_step) if it does not."
        )
    return reversal()
