"""The transitions that are to be retraced: kernels one after another, with their records.

Kernels are functions of flat vectors here (`aide._core.numerics.FlatLayout`), of all particles
at once, with the particle axis last.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from aide._core.distribution import log_density_of, sample_from
from aide._core.numerics import FlatLayout, as_log
from aide._core.random import derive_keys
from aide._core.types import Key, LogDensity, Value
from aide._core.validate import check_scalar
from aide.kernels.retrace import parts_of, weighs_origins
from aide.kernels.schedule import take
from aide.smc.steps import Steps


class FlatStep(NamedTuple):
    """A step forward with its record, and the log density at the new state."""

    value: Float[Array, " d"]
    noise: Float[Array, " e"]
    branch: Int[Array, ""]
    log_density: Float[Array, ""]


class FlatKernel:
    """One retraceable kernel for one density, as functions of flat vectors.

    An instance lives only while one program is traced.

    Args:
        kernel: The kernel.
        log_density: The density for which the kernel steps.
        layout: The layout of states.
    """

    def __init__(self, kernel: Any, log_density: LogDensity, layout: FlatLayout):
        self.kernel, self._log_density = kernel, log_density
        self.weighs_origins = weighs_origins(kernel)
        self.mirrors = bool(getattr(kernel, "mirrors", False))
        self.unravel, self.dtype = layout.unravel, layout.flat.dtype
        noise = jax.eval_shape(
            lambda: kernel.reverse_noise(
                jax.random.key(0), log_density, layout.unravel(layout.flat)
            )
        )
        zeros, self._unravel_noise = ravel_pytree(
            jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), noise)
        )
        self.noise_size = zeros.size

    def log_density(self, x: Array) -> Array:
        """The log density of one flat state."""
        return check_scalar("log_density", self._log_density(self.unravel(x)))

    def record(self, key: Key, x: Array) -> FlatStep:
        """One step of one chain."""
        value, noise, branch = self.kernel.record(key, self._log_density, self.unravel(x))
        y = self._flat(value)
        return FlatStep(y, self._flat(noise), branch.astype(jnp.int32), self.log_density(y))

    def reverse_noise(
        self, key: Key, white: Float[Array, "e P"], y: Float[Array, "d P"]
    ) -> Float[Array, "e P"]:
        """The kernel's own guesses, from white noise if the kernel allows it, or from the key."""
        from_white = getattr(self.kernel, "reverse_noise_from", None)
        if from_white is not None:

            def guess(z: Array, y: Array) -> Array:
                z = self._unravel_noise(z)
                return self._flat(from_white(z, self._log_density, self.unravel(y)))

            return jax.vmap(guess, -1, -1)(white, y)

        def draw(key: Key, y: Array) -> Array:
            return self._flat(self.kernel.reverse_noise(key, self._log_density, self.unravel(y)))

        return jax.vmap(draw, (0, -1), -1)(derive_keys(key, y.shape[1]), y)

    def centre(self, y: Float[Array, "d P"]) -> Float[Array, "e P"]:
        """The centre of the kernel's own guess, which is standard normal around it."""
        white = jnp.zeros((self.noise_size, y.shape[1]), y.dtype)
        return self.reverse_noise(jax.random.key(0), white, y)

    def gradient(self, y: Float[Array, "d P"]) -> Float[Array, "d P"]:
        """The gradient of the log density, for proposals; entries that are not finite become 0."""
        gradient = jax.vmap(jax.grad(self.log_density), -1, -1)(y)
        return jnp.where(jnp.isfinite(gradient), gradient, 0.0)

    def retrace(
        self, y: Float[Array, "d P"], log_density: Float[Array, " P"], noise: Float[Array, "e P"]
    ) -> tuple[Array, ...]:
        """Retrace many particles, as in `Retraceable`: arrays [B, d, P] and three times [B, P]."""

        def undo(y: Array, log_density_y: Array, noise: Array) -> tuple[Array, ...]:
            value, *logs = self.kernel.retrace(
                self._log_density, self.unravel(y), log_density_y, self._unravel_noise(noise)
            )
            return (jax.vmap(self._flat)(value), *(as_log(log) for log in logs))

        return jax.vmap(undo, -1, -1)(y, log_density, noise)

    def _flat(self, tree: Value) -> Array:
        return ravel_pytree(tree)[0].astype(self.dtype)


class StepRecord(NamedTuple):
    """One step of the true run: the state before it, its log density, and the kernel's record."""

    before: Any
    log_density: Any
    noise: Any
    branch: Any


class Transitions(eqx.Module):
    """A start distribution and the transitions that follow.

    Args:
        start: The distribution of the first state.
        move_at: Maps the inputs of a step to its transition, with `kernel` and `log_density`.
        inputs: Arrays with a leading step axis; `None` if all transitions are the same.
        num_steps: Number of transitions.
        length: Number of the first transitions that are made, at least 1, as a number that one
            program takes as an argument; `None` makes all of them, by a shorter program.
    """

    start: Any
    move_at: Callable[[Any], Any]
    inputs: Any
    num_steps: int = eqx.field(static=True)
    length: Any = None

    @staticmethod
    def of(start: Any, steps: Steps) -> "Transitions":
        """The transitions of `Steps`."""
        return Transitions(start, steps.move_at, steps.inputs, steps.num_steps)

    def draw_start(self, key: Key) -> tuple[Array, FlatLayout]:
        """Draw the first state; return it as a vector, with the layout of states."""
        first = sample_from(self.start, key)
        layout = FlatLayout(first)
        return layout.flat, layout

    def log_start(self, layout: FlatLayout, states: Array) -> Array:
        """The start's log density at many states, [d, P]."""
        return jax.vmap(lambda x: log_density_of(self.start, layout.unravel(x)), -1)(states)

    def kernels(self, inputs: Any, layout: FlatLayout) -> list[FlatKernel]:
        """The kernels of one transition, in order."""
        move = self.move_at(inputs)
        return [FlatKernel(part, move.log_density, layout) for part in parts_of(move.kernel)]

    def first(self) -> Any:
        """The first transition, outside of any program."""
        return self.move_at(take(self.inputs, 0))

    def last_inputs(self) -> Any:
        """The inputs of the last step."""
        return jax.tree.map(self.last_of, self.inputs)

    def last_of(self, steps: Any) -> Array:
        """The entry of the last step that is made, of an array with a leading step axis."""
        if self.length is None:
            return jnp.asarray(steps)[-1]
        last = jnp.asarray(self.length).astype(jnp.uint32) - 1
        return jax.lax.dynamic_index_in_dim(jnp.asarray(steps), last, keepdims=False)

    def if_made(
        self, time: Array, step: Callable[[Any], Any], otherwise: Callable[[Any], Any], state: Any
    ) -> Any:
        """`step(state)` if the step at this time is made, else `otherwise(state)`.

        All runs of a batch have one length, so that the branch is no select in a batch.
        """
        if self.length is None:
            return step(state)
        return jax.lax.cond(time < jnp.asarray(self.length), step, otherwise, state)


def record_step(
    keys: Any, kernels: list[FlatKernel], x: Array
) -> tuple[Array, tuple[StepRecord, ...]]:
    """Make one transition of one run with its records; one key per kernel."""
    records, log_density = [], kernels[0].log_density(x)
    for kernel, key in zip(kernels, keys, strict=True):
        y, noise, branch, log_density_y = kernel.record(key, x)
        records.append(StepRecord(x, log_density, noise, branch))
        x, log_density = y, log_density_y
    return x, tuple(records)
