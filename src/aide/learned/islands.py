r"""The other particles of an SMC run, given the path of one particle: SMC over whole populations.

Given its path, the rest of an SMC run has the law of conditional SMC weighted by $1/\hat p$. $K$
populations (islands) are run around the path and weighed after each step by $1/\bar w_t$, the
inverse of the factor of $\hat p$ from that step; islands with low evidence multiply. The
estimate of the normalising constant is unbiased for
$E[1/\hat p] = q(x_{0:T})/\Gamma(x_{0:T})$, where $q(x_{0:T})$ is the density with which SMC outputs
the path and $\Gamma$ its extended target. One island is plain conditional SMC.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from aide._core.distribution import sample_from
from aide._core.flat_states import FlatLayout
from aide._core.numerics import log_mean_exp
from aide._core.random import derive, derive_keys, random_index, zero_of
from aide._core.types import Key, LogProb
from aide.learned.records.transitions import Transitions
from aide.smc.policy import AbstractResampler
from aide.smc.resampling import NOBODY
from aide.smc.smc import Smc
from aide.smc.sweep import Retained, WeightedParticles, advance, place, start, total_log_evidence


class FlatMove:
    """One step of an SMC algorithm on flat states."""

    def __init__(self, transitions: Transitions, inputs: Any, layout: FlatLayout):
        self.move, self.layout = transitions.move_at(inputs), layout

    def forward(self, key: Key, x: Array) -> tuple[Array, LogProb]:
        """Move one flat state, as `ForwardMove` states."""
        y, log_w = self.move.forward(key, self.layout.unravel(x))
        return self.layout.ravel(y), log_w


class SurvivingPath(NamedTuple):
    """Flat states and log weights at the start and after each step, [T + 1, ...]."""

    states: Float[Array, "T d"]
    log_weights: Float[Array, " T"]


def log_inverse_evidence(
    key: Key,
    smc: Smc,
    transitions: Transitions,
    layout: FlatLayout,
    path: SurvivingPath,
    num_islands: int,
    resampler: AbstractResampler,
    true: WeightedParticles,
    is_own: Bool[Array, ""],
) -> LogProb:
    r"""$\log$ of an unbiased estimate of $E[1/\hat p]$ around a path.

    `true` holds the populations of the run that output the path, stacked over the start and all
    steps, with the path's slots as `retained`; where `is_own` is true they are one of the islands
    (the conditional twin).
    """
    key_start, key_steps, key_slot = derive_keys(key, 3)
    first = lambda key: layout.ravel(sample_from(smc.start, key))
    weigh = lambda x: smc.log_first_weight(layout.unravel(x))
    begin = lambda key: start(key, first, weigh, smc.num_particles, path.states[0])
    islands = jax.vmap(begin)(derive_keys(key_start, num_islands))
    slot = jnp.where(is_own, random_index(key_slot, num_islands), NOBODY)
    islands = place(islands, slot, jax.tree.map(lambda a: a[0], true))
    totals = jax.vmap(total_log_evidence)(islands)

    def step(carry: Any, inputs: Any) -> tuple[Any, None]:
        islands, totals, log_weights, log_estimate, slot = carry
        index, inputs, kept, now = inputs
        key_islands, key_moves = derive_keys(derive(key_steps, index), 2)
        done = resampler.around(key_islands, log_weights, slot)
        assert done.retained is not None
        if done.ancestors is not None:
            pick = lambda a: a.at[done.ancestors].get(mode="promise_in_bounds")
            islands, totals = jax.tree.map(pick, (islands, totals))
        move = FlatMove(transitions, inputs, layout)
        moved = lambda key, island: advance(key, move, smc.resampler, island, kept)[0]
        islands = jax.vmap(moved)(derive_keys(key_moves, num_islands), islands)
        islands = place(islands, done.retained, now)
        after = jax.vmap(total_log_evidence)(islands)
        log_weights = done.log_weights + totals - after
        log_estimate = log_estimate + done.log_evidence
        return (islands, after, log_weights, log_estimate, done.retained), None

    times = jnp.arange(transitions.num_steps, dtype=jnp.uint32)
    kept = Retained(path.states[1:], path.log_weights[1:])
    later = jax.tree.map(lambda a: a[1:], true)
    carry = (islands, totals, -totals, zero_of(key), slot)
    steps = (times, transitions.inputs, kept, later)
    (_, _, log_weights, log_estimate, _), _ = jax.lax.scan(step, carry, steps)
    return log_estimate + log_mean_exp(log_weights)
