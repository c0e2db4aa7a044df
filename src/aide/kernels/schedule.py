"""Kernels that change from step to step: of one class, with other numbers at every step."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from aide._core.types import Value
from aide.kernels.kernel import AnyKernel, InvariantKernel, check_instance


class KernelSchedule(eqx.Module):
    """One kernel per step of a path or a chain; built by `stack_kernels`.

    Numbers are arrays with a leading step axis, so that other numbers compile nothing.

    Attributes:
        numbers: The kernels' numbers, stacked.
        common: The rest of the kernel, which all steps share.

    Example:
        >>> walks = [aide.kernels.RandomWalk(scale) for scale in (2.0, 1.0, 0.5)]
        >>> schedule = aide.kernels.stack_kernels(walks)
        >>> schedule.num_kernels, schedule.at(2)
        (3, RandomWalk(scale=0.5))
    """

    numbers: Value
    common: Value

    @property
    def num_kernels(self) -> int:
        """Number of steps that have a kernel."""
        return np.shape(jax.tree.leaves(self.numbers)[0])[0]

    def pick(self, steps: slice | ArrayLike) -> "KernelSchedule":
        """The kernels of some of the steps: a slice, or an array of indices."""
        return KernelSchedule(take(self.numbers, steps), self.common)

    def at(self, step: ArrayLike) -> AnyKernel:
        """The kernel of one step."""
        return eqx.combine(take(self.numbers, step), self.common)


AnyKernels = AnyKernel | KernelSchedule | Sequence[AnyKernel]
"""One kernel for all steps, or one per step."""
InvariantKernels = InvariantKernel | KernelSchedule | Sequence[InvariantKernel]
"""One kernel with a reversal for all steps, or one per step."""


def stack_kernels(kernels: Sequence[AnyKernel]) -> KernelSchedule:
    r"""Kernels of one kind, one per step, as one object.

    Everything but numbers (the class, shapes, whether there is a metric) must be the same in all:
    `stack_kernels([Hmc(0.5, 5), Hmc(0.3, 9, metric)])` is an error. Numbers of leapfrog steps may
    differ; the number of repetitions of `Repeat` may not.

    Args:
        kernels: One per step, in order.

    Returns:
        A `KernelSchedule`, which `aide.mcmc`, `aide.ais` and `aide.tempered_smc` take as `kernel`.

    Raises:
        ValueError: If there is no kernel, or if they differ in anything but numbers.

    Example:
        >>> schedule = aide.kernels.stack_kernels([aide.kernels.RandomWalk(s) for s in (2.0, 1.0)])
        >>> aide.mcmc(Normal(0.0, 2.0), lambda x: -x * x, kernel=schedule, num_steps=2)
        MarkovChain: MCMC, 2 steps
    """
    kernels = list(kernels)
    if not kernels:
        raise ValueError("stack_kernels needs at least one kernel, got none.")
    for kernel in kernels:
        check_instance(kernel)
    trees = [jax.tree.flatten(kernel) for kernel in kernels]
    for place, (_, tree) in enumerate(trees):
        if tree != trees[0][1]:
            raise _unlike(kernels, place)
    numbers, common = list[Any](), list[Any]()
    for column in zip(*(leaves for leaves, _ in trees), strict=True):
        if _are_numbers(column):
            numbers.append(_stack(column))
            common.append(None)
            continue
        for place, leaf in enumerate(column):
            if leaf is not column[0] and not bool(leaf == column[0]):
                raise _unlike(kernels, place)
        numbers.append(None)
        common.append(column[0])
    if all(stack is None for stack in numbers):
        raise ValueError(
            f"{type(kernels[0]).__name__} has no numbers that could differ from step to step: pass "
            "the kernel itself."
        )
    tree = trees[0][1]
    return KernelSchedule(jax.tree.unflatten(tree, numbers), jax.tree.unflatten(tree, common))


def as_kernels(kernel: Any) -> Any:
    """One kernel or a schedule; a list or tuple of kernels is stacked."""
    return stack_kernels(kernel) if isinstance(kernel, list | tuple) else kernel


def check_length(kernel: Any, num_steps: int, why: str) -> None:
    """Raise unless a schedule has exactly `num_steps` kernels; `why` says where steps come from."""
    if isinstance(kernel, KernelSchedule) and kernel.num_kernels != num_steps:
        raise ValueError(
            f"kernel has {kernel.num_kernels} kernels, one per step, but there are {num_steps} "
            f"moves: {why}."
        )


def take(numbers: Any, steps: Any) -> Any:
    """Entries of stacked numbers; outside of a program, single ones are converted to Python's."""
    return jax.tree.map(lambda stack: _plain(stack[steps]), numbers)


def _are_numbers(column: Sequence[Any]) -> bool:
    """Whether to stack a column: arrays and reals always, integers only if they differ."""
    if any(isinstance(leaf, jax.Array | np.ndarray | np.generic | float) for leaf in column):
        return True
    return all(type(leaf) is int for leaf in column) and len(set(column)) > 1


def _stack(column: Sequence[Any]) -> Any:
    shapes = sorted({np.shape(leaf) for leaf in column})
    if len(shapes) > 1:
        raise ValueError(
            "kernels of one schedule need numbers of the same shapes, got "
            f"{' and '.join(map(str, shapes))}: write np.full(d, 0.1) where another kernel has a "
            "vector."
        )
    if any(isinstance(leaf, jax.Array) for leaf in column):
        return jnp.stack([jnp.asarray(leaf) for leaf in column])
    return np.stack([np.asarray(leaf) for leaf in column])


def _unlike(kernels: Sequence[Any], place: int) -> ValueError:
    return ValueError(
        f"kernels of one schedule may differ in numbers alone, but number {place + 1} is not like "
        f"the first: {kernels[place]!r} and {kernels[0]!r}. Give all of them the same class and "
        "the same kinds of settings (a metric for all or for none)."
    )


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python's, which keeps its precision (see `as_parameter`)."""
    return value.item() if isinstance(value, np.generic) else value
