"""Pilot chains: what a model of the reverse is learned from."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Int

from aide._distribution import sample_from
from aide._random import derive, derive_keys
from aide._types import LogDensity
from aide.estimation.engine import get_program, program_session, run_chunks
from aide.kernels.retrace import parts_of
from aide.learned.flat import FlatKernel
from aide.learned.mixture import Stored

SPACING = 0.1
"""Grid times lie this far apart, relative to their size; so wide is the window around each."""


class Chain(eqx.Module):
    """A chain to be run as pilot."""

    initial: Any
    log_density: LogDensity
    kernel: Any


class PartRecords(NamedTuple):
    """Records of one part of the kernel, [n, G, ...] over pilots and grid times."""

    state: Stored
    noise: Stored
    branch: Stored
    log_density: Stored
    log_own: Stored


class Pilots(NamedTuple):
    """All pilots.

    Attributes:
        parts: Records of every part of the kernel.
        last: Last states, [n, d].
        log_density: Log density of the last states, [n].
        moves: Share of the last half of the transitions in which the state changed, [n].
    """

    parts: tuple[PartRecords, ...]
    last: Stored
    log_density: Stored
    moves: Stored


def time_grid(num_steps: int) -> np.ndarray:
    """Steps 0, 1, …, 19, 20, 22, …: neighbours differ by a tenth or by 1."""
    grid = [0]
    while grid[-1] < num_steps - 1:
        grid.append(min(num_steps - 1, grid[-1] + max(1, int(SPACING * grid[-1]))))
    return np.array(grid)


def nearest(grid: np.ndarray, num_steps: int) -> np.ndarray:
    """For every step, the index of the nearest grid time."""
    return np.abs(np.arange(num_steps)[:, None] - grid).argmin(axis=1).astype(np.int32)


def run_pilots(key: Any, chain: Chain, num_steps: int, num_pilots: int) -> Pilots:
    """Run all pilots; each contributes to a grid time one step from the window around it."""
    grid = time_grid(num_steps)
    seed = int(jax.random.bits(jax.random.fold_in(key, 0)))
    width = np.floor(SPACING * grid).astype(int)
    offset = np.random.default_rng(seed).integers(-width, width + 1, (num_pilots, grid.size))
    times = np.clip(grid + offset, 0, num_steps - 1).astype(np.int32)
    stream = jax.random.fold_in(key, 1)
    with jax.enable_x64(True), program_session():
        example = (stream, jnp.uint32(0), jax.ShapeDtypeStruct(grid.shape, jnp.int32))
        program, arrays = get_program(_Pilot(num_steps), chain, example)
        rows = (np.arange(num_pilots, dtype=np.uint32), times)
        size = program.chunk_size(num_pilots)
        return run_chunks(program, arrays, stream, rows, size, lambda done: None)


class _Pilot:
    """One pilot as an operation of the engine; equal for equal numbers of steps."""

    def __init__(self, num_steps: int):
        self.num_steps = num_steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pilot) and other.num_steps == self.num_steps

    def __hash__(self) -> int:
        return hash((_Pilot, self.num_steps))

    def __call__(self, chain: Chain, stream: Any, run: Any, times: Int[Array, " G"]) -> Pilots:
        key_start, key_steps = derive_keys(jax.random.fold_in(stream, run), 2)
        first = sample_from(chain.initial, key_start)
        first = jax.tree.map(lambda x: jnp.asarray(x, float), first)
        flat, _ = ravel_pytree(first)
        kernels = [FlatKernel(part, chain.log_density, first) for part in parts_of(chain.kernel)]

        def transition(x: Array, step: Array) -> Any:
            subkeys = derive_keys(derive(key_steps, step), len(kernels))
            before, done = x, []
            for kernel, subkey in zip(kernels, subkeys, strict=True):
                made = kernel.record(subkey, x)
                x = made.value
                done.append(made)
            return x, (tuple(done), jnp.any(x != before))

        steps = jnp.arange(self.num_steps, dtype=jnp.uint32)
        last, (trace, moved) = jax.lax.scan(transition, flat, steps)
        parts = []
        for kernel, made in zip(kernels, trace, strict=True):
            value, noise, branch, log_density = jax.tree.map(lambda a: a[times], made)
            log_own = kernel.retrace(value.T, log_density, noise.T)[3]
            log_own = jnp.take_along_axis(log_own, branch[None], axis=0)[0]
            parts.append(PartRecords(value, noise, branch, log_density, log_own))
        half = moved[self.num_steps // 2 :]
        return Pilots(tuple(parts), last, trace[-1].log_density[-1], jnp.mean(half.astype(float)))


def evaluate_log_density(chain: Chain, example: Any, states: np.ndarray) -> np.ndarray:
    """The log density of many flat states; NaN is an error."""
    with jax.enable_x64(True):
        kernel = FlatKernel(parts_of(chain.kernel)[0], chain.log_density, example)
        values = np.asarray(jax.jit(jax.vmap(kernel.log_density))(states))
    if np.isnan(values).any():
        worst = states[np.isnan(values)][0]
        raise ValueError(
            f"log_density is NaN at {worst}. It must be a number, or -inf where there is no mass."
        )
    return values
