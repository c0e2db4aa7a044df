r"""MCMC kernels, their reversals, and observed steps.

A kernel $K$ that leaves $\gamma$ invariant has the *reversal* $\tilde K$ with
$\gamma(x) K(x, y) = \gamma(y) \tilde K(y, x)$. A reversible kernel is its own reversal; the
reversal of $K_1$ then $K_2$ is $\tilde K_2$ then $\tilde K_1$. Canonical meta-inference runs
reversals; learned meta-inference needs transitions alone. So kernels that leave no known density
invariant are a type of their own.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.numerics import flat_reals
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_size
from aide._core.versions import ObservedMove, ask


class AbstractKernel(eqx.Module):
    r"""One transition $x \to y$, which need not leave any density invariant.

    The density is an argument, so that one kernel serves every temperature of an annealing path.

    Example:
        >>> class Jitter(aide.kernels.AbstractKernel):
        ...     def step(self, key, log_density, x):
        ...         return x + 0.1 * jax.random.normal(key)
        >>> y = Jitter().step(jax.random.key(0), lambda x: 0.0, 1.0)
        >>> bool(abs(y - 1.0) < 1.0)
        True
    """

    @abstractmethod
    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Sample $y \sim K(x, \cdot)$."""

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and the share of accepted proposals, one number for each part.

        For a kernel without an accept step the share is 1 if the state changed, else 0.
        """
        y = self.step(key, log_density, x)
        same = jax.tree.map(lambda a, b: jnp.all(jnp.asarray(a) == jnp.asarray(b)), x, y)
        stayed = jnp.all(jnp.stack(jax.tree.leaves(same)))
        return y, jnp.where(stayed, 0.0, 1.0)[None]


class AbstractInvariantKernel(AbstractKernel):
    r"""A transition that leaves `log_density` invariant, and has a method for its reversal.

    Example:
        >>> issubclass(aide.kernels.RandomWalk, aide.kernels.AbstractInvariantKernel)
        True
        >>> issubclass(aide.kernels.Ula, aide.kernels.AbstractInvariantKernel)
        False
    """

    @abstractmethod
    def reversal(self) -> "InvariantKernel":
        r"""The kernel $\tilde K$ with $\gamma(x) K(x, y) = \gamma(y) \tilde K(y, x)$."""


class InvariantKernel(Protocol):
    """The methods that canonical meta-inference needs of a kernel; no base class is needed.

    Example:
        >>> class Flip:  # leaves every density with p(x) = p(-x) invariant
        ...     def step(self, key, log_density, x):
        ...         return -x
        ...     def reversal(self):
        ...         return self
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=Flip(), num_steps=3)
        MarkovChain: MCMC, 3 steps
    """

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        r"""Sample $y \sim K(x, \cdot)$."""
        ...

    def reversal(self) -> "InvariantKernel":
        r"""The kernel $\tilde K$ with $\gamma(x) K(x, y) = \gamma(y) \tilde K(y, x)$."""
        ...


AnyKernel = AbstractKernel | InvariantKernel
"""A transition, with or without a reversal."""


class AbstractCompound(AbstractKernel):
    """A kernel made of other kernels: it has a reversal exactly if each of them has one."""

    @abstractmethod
    def components(self) -> tuple[AnyKernel, ...]:
        """The kernels that this kernel is made of."""

    @abstractmethod
    def reversal(self) -> InvariantKernel:
        """The reversal, made of those of the components; an error if one of them has none."""


class AbstractWrapper(AbstractCompound):
    """A compound of one kernel, which is its field `kernel`."""

    def __check_init__(self: Any) -> None:
        check_instance(self.kernel)

    def components(self: Any) -> tuple[AnyKernel, ...]:
        """The one kernel."""
        return (self.kernel,)


class Kernel(AbstractInvariantKernel):
    """A kernel from a function `step(key, log_density, x) -> y`, yours or another library's.

    Args:
        transition: The transition; must leave `log_density` invariant.
        reversible: `True` if the transition satisfies detailed balance.
        backward: The reversal's transition, for a transition without detailed balance.

    Example:
        >>> def step(key, log_density, x):  # a Metropolis step, written by hand
        ...     key_move, key_accept = jax.random.split(key)
        ...     y = x + 0.5 * jax.random.normal(key_move)
        ...     log_uniform = jnp.log(jax.random.uniform(key_accept))
        ...     return jnp.where(log_uniform < log_density(y) - log_density(x), y, x)
        >>> kernel = aide.kernels.Kernel(step, reversible=True)
        >>> kernel.reversal() is kernel
        True
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
        """Call the function."""
        return self.transition(key, log_density, x)

    def reversal(self) -> "Kernel":
        """The kernel itself if it is reversible, else the kernel with the transition `backward`."""
        if self.backward is None:
            return self
        return Kernel(self.backward, backward=self.transition)


class Cycle(AbstractCompound):
    r"""Kernels in a row, $K_1 \cdots K_n$; the reversal is $\tilde K_n \cdots \tilde K_1$.

    Args:
        *parts: The kernels, in the order in which they step.

    Example:
        >>> from aide.kernels import Cycle, Mala, RandomWalk
        >>> Cycle(RandomWalk(2.0), Mala(0.3)).reversal()
        Cycle(parts=(Mala(step_size=0.3), RandomWalk(scale=2.0)))
    """

    parts: tuple[AnyKernel, ...]

    def __init__(self, *parts: AnyKernel):
        if not parts:
            raise ValueError("Cycle needs at least one kernel, got none.")
        for part in parts:
            check_instance(part)
        self.parts = parts

    def components(self) -> tuple[AnyKernel, ...]:
        """The parts."""
        return self.parts

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Make a step of each part, in order."""
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            x = part.step(subkey, log_density, x)
        return x

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same step, and the acceptance rates of each part."""
        shares = []
        for part, subkey in zip(self.parts, derive_keys(key, len(self.parts)), strict=True):
            x, share = ask(AbstractKernel, part, "observe_step", subkey, log_density, x)
            shares.append(share)
        return x, jnp.concatenate(shares)

    def reversal(self) -> "Cycle":
        """The parts' reversals in reverse order."""
        return Cycle(*(reversal_of(part) for part in reversed(self.parts)))

    def retraceable_parts(self) -> tuple[AnyKernel, ...]:
        """The kernels of one transition, in order: the parts."""
        return self.parts


class Repeat(AbstractWrapper):
    r"""The same kernel `num_times` in a row: $K^n$, with reversal $\tilde K^n$.

    Args:
        kernel: The kernel.
        num_times: Number of steps of `kernel` in one step of the compound.

    Example:
        >>> kernel = aide.kernels.Repeat(aide.kernels.RandomWalk(0.5), 20)
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=kernel, num_steps=10)
        MarkovChain: MCMC, 10 steps
    """

    kernel: AnyKernel
    num_times: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_size("num_times", self.num_times, 0)

    def step(self, key: Key, log_density: LogDensity, x: Value) -> Value:
        """Make `num_times` steps, in a loop that is compiled once."""

        def body(index: Array, x: Value) -> Value:
            return self.kernel.step(derive(key, index), log_density, x)

        return jax.lax.fori_loop(0, self.num_times, body, jax.tree.map(jnp.asarray, x))

    def observe_step(self, key: Key, log_density: LogDensity, x: Value) -> tuple[Value, Array]:
        """The same steps; acceptance rates are means over them."""

        def body(index: Array, state: tuple[Value, Array]) -> tuple[Value, Array]:
            x, total = state
            arguments = (derive(key, index), log_density, x)
            y, share = ask(AbstractKernel, self.kernel, "observe_step", *arguments)
            return y, total + share

        x = jax.tree.map(jnp.asarray, x)
        observe = lambda: ask(AbstractKernel, self.kernel, "observe_step", key, log_density, x)[1]
        first = (x, jnp.zeros(jax.eval_shape(observe).shape))
        y, total = jax.lax.fori_loop(0, self.num_times, body, first)
        return y, total / max(self.num_times, 1)

    def reversal(self) -> "Repeat":
        """The reversal of `kernel`, `num_times` in a row."""
        return Repeat(reversal_of(self.kernel), self.num_times)

    def retraceable_parts(self) -> tuple[AnyKernel, ...]:
        """The kernels of one transition: `kernel`, `num_times`."""
        return (self.kernel,) * self.num_times


def check_instance(kernel: object) -> None:
    """Raise if a class stands in the place of a kernel."""
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel must be an instance, got the class {kernel.__name__}: write "
            f"{kernel.__name__}(...) with its settings."
        )


def lacks_reversal(kernel: object) -> object | None:
    """The kernel, or the first component of it, that has no reversal; `None` if all have one."""
    if isinstance(kernel, AbstractCompound):
        lacking = (lacks_reversal(part) for part in kernel.components())
        return next((part for part in lacking if part is not None), None)
    methods = (getattr(kernel, name, None) for name in ("step", "reversal"))
    return None if all(callable(method) for method in methods) else kernel


def as_invariant(kernel: object) -> InvariantKernel:
    """Return the kernel; raise if the kernel, or a component of it, has no reversal."""
    check_instance(kernel)
    lacking = lacks_reversal(kernel)
    if isinstance(lacking, AbstractKernel):
        raise ValueError(
            f"{type(lacking).__name__} has no reversal: it leaves no density invariant that we "
            "know, so there is no canonical meta-inference for it. Learn one: "
            "aide.refine(key, aide.mcmc(...)). Kernels with an accept step have a reversal: "
            "aide.kernels.Mala is adjusted Langevin."
        )
    if lacking is not None:
        raise ValueError(
            f"{type(lacking).__name__} has no reversal, which meta-inference needs. Wrap its step: "
            "aide.kernels.Kernel(step, reversible=True) if it satisfies detailed balance, "
            "aide.kernels.Kernel(step, backward=reverse_step) if it does not."
        )
    return cast(InvariantKernel, kernel)


def reversal_of(kernel: object) -> InvariantKernel:
    """Return the reversal of a kernel; raise if there is none."""
    return as_invariant(kernel).reversal()


def observe_kernel(key: Key, kernel: AnyKernel, log_density: LogDensity, x: Value) -> ObservedMove:
    """A step, the one that `kernel.step` makes with this key, as a move without a weight."""
    y, acceptance = ask(AbstractKernel, kernel, "observe_step", key, log_density, x)
    squared_jump = (flat_reals(y) - flat_reals(x)) ** 2
    return ObservedMove(y, jnp.zeros(()), acceptance, squared_jump)
