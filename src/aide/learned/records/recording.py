"""Runs that keep the record of every step, and chains as such runs."""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.flat_states import FlatLayout
from aide._core.random import derive, derive_keys
from aide._core.types import Key
from aide.learned.records.transitions import StepRecord, Transitions, record_step
from aide.smc.sweep import Population


class Recording(NamedTuple):
    """A run and its records: of every part of the kernel, stacked over steps.

    `log_evidence` is the log evidence before every step and in the end, [T + 1]; empty for a chain.
    `log_weights` are those of the path at the same times; `populations` are those of SMC.
    """

    layout: FlatLayout
    last: Array
    trace: tuple[StepRecord, ...]
    log_evidence: Array
    log_weights: Array
    populations: Population | None = None


class Recorder(Protocol):
    """A run forwards that can be retraced."""

    @property
    def transitions(self) -> Transitions:
        """What the run does, without weights."""
        ...

    def record(self, key: Key) -> Recording:
        """Run once."""
        ...


class ChainRecorder(eqx.Module):
    """A Markov chain with its records."""

    transitions: Transitions

    def record(self, key: Key) -> Recording:
        """Run once; keys 0 and 1 derived from the key are used up."""
        key_start, key_steps = derive_keys(key, 2)
        first, layout = self.transitions.start(key_start)

        def step(x: Array, inputs: Any) -> tuple[Array, tuple[StepRecord, ...]]:
            index, inputs = inputs
            kernels = self.transitions.kernels(inputs, layout)
            keys = derive_keys(derive(key_steps, index), len(kernels))
            return record_step(keys, kernels, x)

        num = self.transitions.num_steps
        steps = (jnp.arange(num, dtype=jnp.uint32), self.transitions.inputs)
        last, trace = jax.lax.scan(step, first, steps, length=num)
        return Recording(layout, last, trace, jnp.zeros(0), jnp.zeros(0))
