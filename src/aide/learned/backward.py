r"""The walk back over a whole run: SMC over the records of its steps, from output to start.

$$\hat Z = \hat q_T(x)\,\prod_t \frac1P\sum_i W_t^i, \qquad
W_t = c_t(x_t)\,\hat q_{t-1}(x_{t-1})\,k_t(x_t, v_t, b_t \mid x_{t-1}) / J_t(x_t, v_t, b_t)$$

is an unbiased estimate of $\int f$ over all paths that end in $x$, with
$f = q_0(x_0)\prod_t k_t\,c_t(x_t)$; with $c = 1$ that is the output density $q(x)$.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from aide._core.flat_states import FlatLayout
from aide._core.numerics import scaled_exp
from aide._core.random import derive, derive_keys, draw_index
from aide._core.types import Key
from aide.learned.models.joint import Stored
from aide.learned.records.transitions import StepRecord, Transitions
from aide.learned.reverse_particles import ReverseParticles, begin, step_back
from aide.smc.policy import AbstractResampler, EssBelow, as_resampler
from aide.smc.resampling import Systematic

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
        model = _slice(self.models[-1], index[-1])
        particles = begin(key_slot, x, last.log_density(x), model, self.num_reverse, is_own)

        def transition(particles: ReverseParticles, step: Any) -> tuple[ReverseParticles, Any]:
            time, inputs, inputs_before, now, before, kept = step
            kernels = transitions.kernels(inputs, layout)
            if log_factor is not None:
                factor = log_factor(inputs, particles.states)
                particles = particles._replace(log_weights=particles.log_weights + factor)
            subkeys = derive_keys(derive(key_steps, time), len(kernels))
            parents = jnp.arange(self.num_reverse, dtype=jnp.int32)
            for part in reversed(range(len(kernels))):

                def score_before(states: Array, density: Array, part: int = part) -> Any:
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
