"""The transitions that are to be retraced: kernels one after another, with their records."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.distribution import log_density_of, sample_from
from aide._core.flat_states import FlatLayout
from aide._core.types import Key
from aide.kernels.retrace import parts_of
from aide.kernels.schedule import take
from aide.learned.records.flat_states import FlatKernel
from aide.smc.moves import Steps


class StepRecord(NamedTuple):
    """One step of the true run: the state before it, its log density, and the kernel's record."""

    before: Any
    log_density: Any
    noise: Any
    branch: Any


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

    @staticmethod
    def of(initial: Any, steps: Steps) -> "Transitions":
        """Those of one run of moves."""
        return Transitions(initial, steps.move_at, steps.inputs, steps.num_steps)

    def start(self, key: Key) -> tuple[Array, FlatLayout]:
        """Draw the first state, as a vector, and see how states are laid out."""
        first = sample_from(self.initial, key)
        layout = FlatLayout(first)
        return layout.flat, layout

    def log_start(self, layout: FlatLayout, states: Array) -> Array:
        """The start's log density at many states, [d, P]."""
        return jax.vmap(lambda x: log_density_of(self.initial, layout.unravel(x)), -1)(states)

    def kernels(self, inputs: Any, layout: FlatLayout) -> list[FlatKernel]:
        """The kernels of one transition, in order."""
        move = self.move_at(inputs)
        return [FlatKernel(part, move.log_density, layout) for part in parts_of(move.kernel)]

    def first(self) -> Any:
        """The first transition, outside of any program."""
        return self.move_at(take(self.inputs, 0))

    def last_inputs(self) -> Any:
        """The inputs of the last step."""
        return jax.tree.map(lambda a: jnp.asarray(a)[-1], self.inputs)


def record_step(
    keys: Any, kernels: list[FlatKernel], x: Array
) -> tuple[Array, tuple[StepRecord, ...]]:
    """One transition of one run with its records; one key per kernel."""
    records, log_density = [], kernels[0].log_density(x)
    for kernel, key in zip(kernels, keys, strict=True):
        y, noise, branch, log_density_y = kernel.record(key, x)
        records.append(StepRecord(x, log_density, noise, branch))
        x, log_density = y, log_density_y
    return x, tuple(records)
