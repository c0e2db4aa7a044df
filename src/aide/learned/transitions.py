"""The forward run that is to be retraced: kernels one after another, with their records."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.distribution import log_density_of, sample_from
from aide._core.random import derive, derive_keys
from aide._core.types import Key, LogDensity
from aide.kernels.retrace import parts_of
from aide.learned.flat import FlatKernel, Layout


class Kept(NamedTuple):
    """One step of the true trace: the state before it, its log density, and the record."""

    before: Any
    log_density: Any
    noise: Any
    branch: Any


class Same(eqx.Module):
    """The same transition at every step: a kernel and the density it is meant for."""

    kernel: Any
    log_density: LogDensity

    def __call__(self, _: Any) -> "Same":
        """The transition of a step."""
        return self


class Transitions(eqx.Module):
    """A start distribution and the transitions that follow.

    Args:
        initial: Where the run starts.
        move_at: Maps the inputs of a step to its transition, with `kernel` and `log_density`.
        inputs: Arrays with a leading step axis; `None` where all transitions are the same.
        num_steps: How many transitions.
    """

    initial: Any
    move_at: Callable[[Any], Any]
    inputs: Any
    num_steps: int = eqx.field(static=True)

    def start(self, key: Key) -> tuple[Array, Layout]:
        """Draw the first state, as a vector, and see how states are laid out."""
        first = sample_from(self.initial, key)
        layout = Layout(first)
        return layout.flat, layout

    def log_start(self, layout: Layout, states: Array) -> Array:
        """The start's log density at many states, [d, P]."""
        return jax.vmap(lambda x: log_density_of(self.initial, layout.unravel(x)), -1)(states)

    def kernels(self, inputs: Any, layout: Layout) -> list[FlatKernel]:
        """The kernels of one transition, in order."""
        move = self.move_at(inputs)
        return [FlatKernel(part, move.log_density, layout) for part in parts_of(move.kernel)]

    def last_inputs(self) -> Any:
        """The inputs of the last step."""
        return jax.tree.map(lambda a: jnp.asarray(a)[-1], self.inputs)


def record_step(keys: Any, kernels: list[FlatKernel], x: Array) -> tuple[Array, tuple[Kept, ...]]:
    """One transition of one run with its records; one key per kernel."""
    kept, log_density = [], kernels[0].log_density(x)
    for kernel, key in zip(kernels, keys, strict=True):
        y, noise, branch, log_density_y = kernel.record(key, x)
        kept.append(Kept(x, log_density, noise, branch))
        x, log_density = y, log_density_y
    return x, tuple(kept)


def run_chain(
    key_start: Key, key_steps: Key, transitions: Transitions
) -> tuple[Layout, Array, tuple[Kept, ...]]:
    """Run once; return the layout, the last state, and the records stacked over steps."""
    first, layout = transitions.start(key_start)

    def step(x: Array, inputs: Any) -> tuple[Array, tuple[Kept, ...]]:
        index, inputs = inputs
        kernels = transitions.kernels(inputs, layout)
        keys = derive_keys(derive(key_steps, index), len(kernels))
        return record_step(keys, kernels, x)

    steps = (jnp.arange(transitions.num_steps, dtype=jnp.uint32), transitions.inputs)
    last, trace = jax.lax.scan(step, first, steps, length=transitions.num_steps)
    return layout, last, trace
