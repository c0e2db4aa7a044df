r"""Where a particle came from: its slots through the populations of a run.

With $a_t^i$ the slot of the parent of particle $i$ after step $t$, the path that ends in slot $b_T$
passes through $b_{t-1} = a_t^{b_t}$.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from aide._core.types import Value
from aide.smc.sweep import Population


class RecordedRun(NamedTuple):
    """A free run with all it passed through.

    Attributes:
        populations: At the start and after each step, stacked; `retained` holds the slots of the
            path that ends in the output.
        path: The particles of that path, stacked in the same way.
    """

    populations: Population
    path: Value


def record_path(
    first: Population, segments: list[tuple[Population, Array | None]], chosen: Any
) -> RecordedRun:
    """Put together what `run_segment` kept of whole populations, and follow the output's path.

    Args:
        first: The population at the start.
        segments: Populations after each step, stacked, and their ancestors.
        chosen: The slot of the output.
    """
    stacks = [jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], first)]
    stacks += [populations for populations, _ in segments]
    populations = jax.tree.map(lambda *parts: jnp.concatenate(parts), *stacks)
    slots = jnp.asarray(chosen, jnp.int32)[None]
    for after, ancestors in reversed(segments):
        num_steps = after.log_weights.shape[0]
        slots = jnp.concatenate([slots_of_path(ancestors, slots[0], num_steps + 1), slots[1:]])
    path = take_path(populations.particles, slots)
    return RecordedRun(populations._replace(retained=slots), path)


def slots_of_path(
    ancestors: Int[Array, "steps num"] | None, chosen: Any, num_states: int
) -> Int[Array, " states"]:
    """The slots of `num_states` neighbouring states, the last of which is in slot `chosen`.

    `ancestors` are those of the steps between them, `None` where nobody was ever resampled.
    """
    if ancestors is None:
        return jnp.full((num_states,), chosen)

    def parent(slot: Array, row: Array) -> tuple[Array, Array]:
        before = row[slot]
        return before, before

    last = jnp.asarray(chosen, ancestors.dtype)
    _, earlier = jax.lax.scan(parent, last, ancestors, reverse=True)
    return jnp.concatenate([earlier, last[None]])


def take_path(states: Value, slots: Int[Array, " states"]) -> Value:
    """One particle of every population."""
    return jax.tree.map(lambda a: jax.vmap(lambda row, slot: row[slot])(a, slots), states)
