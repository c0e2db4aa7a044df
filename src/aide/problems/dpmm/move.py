r"""The weighted move of the mixture: rejuvenate, then let the next datum join a cluster.

The move leads from $\gamma_t$, the joint density of hyperparameters, partition and values of the
first $t$ data, to $\gamma_{t+1}$. The sweeps leave $\gamma_t$ invariant and are reversed backward,
so that only the addition of datum $y$ is weighed: by $w = p(y \mid \text{its cluster})$ if the
cluster is drawn from the Chinese restaurant process, by $w = p(y \mid \text{state})$ if given $y$.

One sweep (`rejuvenate`): for each datum in turn a Gibbs step for its cluster, then updates of
$\alpha$, of $(m, r, \nu, s)$ jointly and of $m$, $r$, $\nu$, $s$ one at a time; after the last
datum the joint and the single updates once more. Every part is reversible, so the reversal of a
sweep is its parts in reverse order.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from aide._core.random import derive, standard_uniform
from aide._core.types import Key, LogProb, Value
from aide.problems.dpmm.clusters import (
    Hyper,
    Labels,
    Row,
    Slots,
    canonical_labels,
    gather_clusters,
    row_of,
    side_by_side,
    with_row,
)
from aide.problems.dpmm.updates import (
    Noise,
    Setting,
    State,
    draw_noise,
    draw_slots,
    from_value,
    gibbs_step,
    make_state,
    to_value,
    update_alpha,
    update_cluster_prior,
    weigh_slots,
)


def rejuvenate(keys: Key, state: State, setting: Setting, reverse: bool) -> State:
    """Run all sweeps, or their reversal."""
    seen = setting.num_seen

    def body(step: Array, state: State) -> State:
        # Positions 0 to t - 1 are data; position t is that of the updates after the pass.
        position = step % (seen + 1)
        i = seen - position if reverse else position
        noise = draw_noise(keys, step, setting.data.dtype)
        if reverse:
            return _assign(i, noise, _update(noise, state, setting, True), setting, True)
        return _update(noise, _assign(i, noise, state, setting, False), setting, False)

    return jax.lax.fori_loop(0, setting.num_sweeps * (seen + 1), body, state)


def _assign(i: Array | int, noise: Noise, state: State, setting: Setting, reverse: bool) -> State:
    r"""Make a Gibbs step for datum $i$, then update $\alpha$; do nothing if $i = t$."""

    def gibbs(state: State) -> State:
        return gibbs_step(noise.gibbs, state, i, setting.data[i])

    def alpha(state: State) -> State:
        hyper = update_alpha(noise, state.hyper, state.number, setting.num_seen, setting.frozen)
        return state._replace(hyper=hyper)

    def both(_: Any, state: State) -> State:
        return gibbs(alpha(state)) if reverse else alpha(gibbs(state))

    # A loop of one or no iteration works in place where a branch would copy.
    return jax.lax.fori_loop(0, (i < setting.num_seen).astype(jnp.int32), both, state)


def _update(noise: Noise, state: State, setting: Setting, reverse: bool) -> State:
    hyper = update_cluster_prior(noise, state, reverse, setting.frozen)
    return state._replace(hyper=hyper)


ARRIVAL = np.uint32(2**31)
"""Index of the random number for a new datum, beyond those of the sweeps."""


class AddDatum(eqx.Module):
    """Rejuvenate the partition of the first `num_seen` data, then add the next one.

    The state is a dict: `labels`, canonical for the data so far and -1 for the others, and the
    hyperparameters. See `Setting` for the fields.
    """

    data: ArrayLike
    num_seen: ArrayLike
    num_sweeps: ArrayLike
    optimal: ArrayLike
    frozen: ArrayLike

    def forward(self, key: Key, x: Value) -> tuple[Value, LogProb]:
        r"""Rejuvenate and add the datum; $\log w$ is that of adding it: sweeps have weight 1."""
        return self._one_lane(_forward, key, x)

    def backward(self, key: Key, y: Value) -> tuple[Value, LogProb]:
        """Remove the datum, run the sweeps in reverse; the same weight."""
        return self._one_lane(_backward, key, y)

    def _one_lane(
        self, function: Callable[..., tuple[Value, LogProb]], key: Key, x: Value
    ) -> tuple[Value, LogProb]:
        integers = (jnp.asarray(n, jnp.int32) for n in (self.num_seen, self.num_sweeps))
        flags = (jnp.asarray(flag, bool) for flag in (self.optimal, self.frozen))
        setting = Setting(jnp.asarray(self.data, float), *integers, *flags)
        lanes = jax.tree.map(lambda a: jnp.asarray(a)[None], x)
        return jax.tree.map(lambda a: a[0], function(key[None], lanes, setting))


class NextDatum(eqx.Module):
    """Builds the moves of all steps, for `Steps`; each adds datum `num_seen`."""

    data: ArrayLike
    num_sweeps: ArrayLike
    optimal: ArrayLike
    frozen: ArrayLike

    def __call__(self, num_seen: ArrayLike) -> AddDatum:
        """The move that adds datum `num_seen`."""
        return AddDatum(self.data, num_seen, self.num_sweeps, self.optimal, self.frozen)


@side_by_side
def _forward(keys: Key, lanes: Value, setting: Setting) -> tuple[Value, Row]:
    labels, hyper = lanes["labels"].T.astype(jnp.int32), from_value(lanes)
    seen = setting.num_seen
    clusters = gather_clusters(labels, setting.data, seen)
    state = rejuvenate(keys, make_state(labels, hyper, clusters), setting, reverse=False)
    draw = lambda key: standard_uniform(derive(key, ARRIVAL), (), setting.data.dtype)
    slots, log_w = _arrive(jax.vmap(draw)(keys), state, None, setting)
    labels = canonical_labels(with_row(state.labels, seen, slots), seen + 1)
    return _value(labels, state.hyper, lanes), log_w


@side_by_side
def _backward(keys: Key, lanes: Value, setting: Setting) -> tuple[Value, Row]:
    labels, hyper = lanes["labels"].T.astype(jnp.int32), from_value(lanes)
    seen = setting.num_seen
    labels = canonical_labels(labels, seen + 1)
    clusters = gather_clusters(labels, setting.data, seen)
    state = make_state(labels, hyper, clusters)
    _, log_w = _arrive(jnp.zeros_like(hyper.nu), state, row_of(labels, seen), setting)
    state = rejuvenate(keys, state, setting, reverse=True)
    return _value(canonical_labels(state.labels, seen), state.hyper, lanes), log_w


def _arrive(uniform: Row, state: State, given: Slots | None, setting: Setting) -> tuple[Slots, Row]:
    """The slot of the next datum, drawn unless given, and the log weight of adding the datum."""
    hyper, clusters = state.hyper, state.clusters
    reach = jnp.minimum(state.top + 1, state.labels.shape[0])
    log_prior, log_likelihood = weigh_slots(
        hyper, clusters, None, setting.data[setting.num_seen], reach
    )
    guide = jnp.where(setting.optimal, log_likelihood, 0.0)
    slots, log_total = draw_slots(uniform, log_prior, guide, reach)
    slots = slots if given is None else given
    everywhere = jnp.arange(log_prior.shape[0], dtype=jnp.int32)[:, None]
    own = jnp.sum(jnp.where(everywhere == slots, log_likelihood, 0.0), axis=0)
    log_w = jnp.where(setting.optimal, log_total - jnp.log(hyper.alpha + setting.num_seen), own)
    impossible = (hyper.alpha <= 0) | (hyper.r <= 0) | (hyper.nu <= 0) | (hyper.s <= 0)
    return slots, jnp.where(impossible, -jnp.inf, log_w)


def _value(labels: Labels, hyper: Hyper, like: Value) -> Value:
    return {"labels": labels.T.astype(like["labels"].dtype), **to_value(hyper)}
