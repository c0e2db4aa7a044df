r"""Sweeps over the data: a kernel that leaves the posterior given the first $t$ data invariant.

One sweep: for each datum in turn a Gibbs step for its cluster, then updates of $\alpha$, of
$(m, r, \nu, s)$ jointly and of $m$, $r$, $\nu$, $s$ one at a time; after the last datum the joint
and the single updates once more. Every part is reversible, so the reversal of a sweep is its parts
in reverse order.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from aide._core.types import Key
from aide.problems.dpmm.assignment import gibbs_step
from aide.problems.dpmm.hyperparameters import (
    Noise,
    draw_noise,
    update_alpha,
    update_cluster_prior,
)
from aide.problems.dpmm.state import Setting, State


def rejuvenate(keys: Key, state: State, setting: Setting, reverse: bool) -> State:
    """Run all sweeps, or their reversal."""
    seen = setting.num_seen

    def body(step: Array, state: State) -> State:
        # Positions 0 to t - 1 are data; position t stands for the updates after the pass.
        position = step % (seen + 1)
        i = seen - position if reverse else position
        noise = draw_noise(keys, step, setting.data.dtype)
        if reverse:
            return _assign(i, noise, _update(noise, state, setting, True), setting, True)
        return _update(noise, _assign(i, noise, state, setting, False), setting, False)

    return jax.lax.fori_loop(0, setting.num_sweeps * (seen + 1), body, state)


def _assign(i: Array | int, noise: Noise, state: State, setting: Setting, reverse: bool) -> State:
    r"""Gibbs step for datum $i$, then update of $\alpha$; nothing if $i = t$."""

    def gibbs(state: State) -> State:
        return gibbs_step(noise.gibbs, state, i, setting.data[i])

    def alpha(state: State) -> State:
        hyper = update_alpha(noise, state.hyper, state.number, setting.num_seen, setting.frozen)
        return state._replace(hyper=hyper)

    def both(_: Any, state: State) -> State:
        return gibbs(alpha(state)) if reverse else alpha(gibbs(state))

    # A loop that runs once or not at all works in place where a branch would copy.
    return jax.lax.fori_loop(0, (i < setting.num_seen).astype(jnp.int32), both, state)


def _update(noise: Noise, state: State, setting: Setting, reverse: bool) -> State:
    hyper = update_cluster_prior(noise, state, reverse, setting.frozen)
    return state._replace(hyper=hyper)
