r"""The walk back over the records of a whole run: along one path, and of the other particles.

Along the path, SMC from output to start,

$$\hat Z = \hat q_T(x)\,\prod_t \frac1P\sum_i W_t^i, \qquad
W_t = c_t(x_t)\,\hat q_{t-1}(x_{t-1})\,k_t(x_t, v_t, b_t \mid x_{t-1}) / J_t(x_t, v_t, b_t)$$

is an unbiased estimate of $\int f$ over all paths that end in $x$, with
$f = q_0(x_0)\prod_t k_t\,c_t(x_t)$; with $c = 1$ that is the output density $q(x)$.

The other particles of an SMC run, given that path, have a walk of their own.
Given its path, the rest of an SMC run has the law of conditional SMC weighted by $1/\hat p$. $K$
populations (islands) are run around the path and weighed after each step by $1/\bar w_t$, the
inverse of the factor of $\hat p$ from that step; islands with low evidence multiply. The
estimate of the normalising constant is unbiased for
$E[1/\hat p] = q(x_{0:T})/\Gamma(x_{0:T})$, where $q(x_{0:T})$ is the density with which SMC outputs
the path and $\Gamma$ its extended target. One island is plain conditional SMC.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from aide._core.distribution import sample_from
from aide._core.numerics import FlatLayout, log_mean_exp, scaled_exp
from aide._core.random import derive, derive_keys, draw_index, random_index, zero_of
from aide._core.types import Key, LogProb
from aide.learned.models.joint import Stored
from aide.learned.records.transitions import StepRecord, Transitions
from aide.learned.reverse_particles import ReverseParticles, begin, step_back
from aide.smc.policy import AbstractResampler, EssBelow, as_resampler
from aide.smc.resampling import NOBODY, Systematic
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


LogFactor = Callable[[Any, Float[Array, "d P"]], Float[Array, " P"]]


class Backward(eqx.Module):
    r"""Meta-inference for `Transitions` with learned models.

    Args:
        models: For every part of the kernel, the models $J$ stacked over a grid of times.
        index: For every step, which of the stacked models to use.
        num_reverse: $P$, reverse particles.
        resampler: When and how the walk back resamples its particles.
    """

    models: tuple[Any, ...]
    index: Stored
    num_reverse: int = eqx.field(static=True)
    resampler: AbstractResampler = eqx.field(
        converter=as_resampler, default=EssBelow(0.8, Systematic())
    )

    def estimate_log_density(
        self,
        key: Key,
        transitions: Transitions,
        layout: FlatLayout,
        x: Float[Array, " d"],
        trace: tuple[StepRecord, ...],
        is_own: Bool[Array, ""],
    ) -> Float[Array, ""]:
        r"""$\log\hat q(x)$ of a walk that retains `trace` where `is_own`, else of a free one."""
        if not transitions.num_steps:
            return transitions.log_start(layout, x[:, None])[0]
        start = lambda states: transitions.log_start(layout, states)
        particles, _ = self.run(key, transitions, layout, x, trace, is_own, start, None)
        return particles.log_estimate()

    def run(
        self,
        key: Key,
        transitions: Transitions,
        layout: FlatLayout,
        x: Float[Array, " d"],
        trace: tuple[StepRecord, ...],
        is_own: Bool[Array, ""],
        log_start: Callable[[Array], Array],
        log_factor: LogFactor | None,
    ) -> tuple[ReverseParticles, Any]:
        r"""Walk back; return the particles at the start and, per step, (states, parents).

        `log_start` is $\log q_0$ (with factors of the start), `log_factor(inputs, states)` is
        $\log c_t$. `states` are those before the step, `parents` their slots after the step.
        """
        key_slot, key_steps = derive_keys(key, 2)
        index = jnp.asarray(self.index)[: transitions.num_steps].astype(jnp.uint32)
        last = transitions.kernels(transitions.last_inputs(), layout)[-1]
        model = _slice(self.models[-1], transitions.last_of(index))
        particles = begin(key_slot, x, last.log_density(x), model, self.num_reverse, is_own)

        def walk(particles: ReverseParticles, step: Any) -> tuple[ReverseParticles, Any]:
            time, inputs, inputs_before, now, before, kept = step
            kernels = transitions.kernels(inputs, layout)
            if log_factor is not None:
                factor = log_factor(inputs, particles.states)
                particles = particles._replace(log_weights=particles.log_weights + factor)
            subkeys = derive_keys(derive(key_steps, time), len(kernels))
            parents = jnp.arange(self.num_reverse, dtype=jnp.int32)
            for part in reversed(range(len(kernels))):

                def score_before(states: Array, density: Array, part: int = part) -> Any:
                    # Before the first part stands the last one, of the step before.
                    model = _slice(self.models[part - 1], before if part == 0 else now)
                    if part == 0 and transitions.inputs is not None:  # another density
                        earlier = transitions.kernels(inputs_before, layout)[-1]
                        density = jax.vmap(earlier.log_density, -1)(states)
                    scores, log_q = model.score(states, density)
                    if part == 0:
                        log_q = jnp.where(time == 0, log_start(states), log_q)
                    return scores, log_q, density

                particles, ancestors = step_back(
                    subkeys[part],
                    kernels[part],
                    _slice(self.models[part], now),
                    score_before,
                    self.resampler,
                    particles,
                    kept[part],
                )
                if ancestors is not None:
                    parents = parents[ancestors]
            return particles, (particles.states, parents)

        everyone = jnp.arange(self.num_reverse, dtype=jnp.int32)
        stay = lambda particles: (particles, (particles.states, everyone))

        def transition(particles: ReverseParticles, step: Any) -> tuple[ReverseParticles, Any]:
            return transitions.if_made(step[0], lambda p: walk(p, step), stay, particles)

        times = jnp.arange(transitions.num_steps, dtype=jnp.uint32)
        shift = lambda a: jnp.concatenate([jnp.asarray(a)[:1], jnp.asarray(a)[:-1]])
        inputs = transitions.inputs
        steps = (times, inputs, jax.tree.map(shift, inputs), index, shift(index), trace)
        return jax.lax.scan(transition, particles, steps, reverse=True)


def choose_path(key: Key, particles: ReverseParticles, history: Any) -> Float[Array, "T d"]:
    """Draw one particle at the start by weight; return its states before every step."""
    weights, _ = scaled_exp(particles.log_weights)
    chosen = draw_index(key, weights)

    def follow(slot: Array, step: Any) -> tuple[Array, Array]:
        states, parents = step
        return parents[slot], states[:, slot]

    return jax.lax.scan(follow, chosen, history)[1]


def _slice(model: Any, index: Array) -> Any:
    """Take one of the stacked models; the index is unsigned, which shortens the program."""
    take = lambda a: jax.lax.dynamic_index_in_dim(jnp.asarray(a), index, keepdims=False)
    return jax.tree.map(take, model)
