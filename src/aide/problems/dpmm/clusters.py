"""Clusters as slots: sufficient statistics, partitions as canonical labels, many lanes at once.

Everything in this folder but the model itself works on many *lanes* at once, the particles of all
runs side by side: arrays are [slots, lanes] or [data, lanes]. A row holds one slot in all lanes and
is what the processor's vector units work on; `side_by_side` turns nested `vmap`s into one axis of
lanes. There are as many slots as data, so no partition is ever truncated, but loops end at the
highest slot in use in any lane.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from aide._core.jax_compat import custom_vmap

Row = Float[Array, " lanes"]
Slots = Int[Array, " lanes"]
Labels = Int[Array, "data lanes"]
Table = Float[Array, "slots lanes"]


class Clusters(NamedTuple):
    r"""Number $N$ of data, their mean and $\sum(y - \bar y)^2$: tables, or rows of them.

    All three are 0 where a slot is empty.
    """

    size: Array
    mean: Array
    spread: Array


def over_slots(top: Array | int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Run `body(slot, carry)` for the slots below `top`.

    A body reads tables or writes one row of each. Where one did both, XLA copied the tables at
    every iteration.
    """
    return jax.lax.fori_loop(jnp.int32(0), jnp.asarray(top, jnp.int32), body, carry)


def row_of(tables: Any, index: Array | int) -> Any:
    """One row of every table of a tree."""
    take = lambda table: jax.lax.dynamic_index_in_dim(table, index, keepdims=False)
    return jax.tree.map(take, tables)


def with_row(tables: Any, index: Array | int, rows: Any) -> Any:
    """Replace one row of every table of a tree."""
    put = lambda table, row: jax.lax.dynamic_update_index_in_dim(table, row, index, 0)
    return jax.tree.map(put, tables, rows)


def find_rows(clusters: Clusters, slots: Slots, top: Array | int) -> Clusters:
    """The statistics of one slot per lane; zeros for slots at or above `top`."""

    def look(slot: Array, found: Clusters) -> Clusters:
        return choose(slots == slot, row_of(clusters, slot), found)

    zero = jnp.zeros_like(clusters.size[0])
    return over_slots(top, look, Clusters(zero, zero, zero))


def choose(here: Array, these: Clusters, others: Clusters) -> Clusters:
    """`these` where `here` is true, `others` elsewhere."""
    return Clusters(*(jnp.where(here, a, b) for a, b in zip(these, others, strict=True)))


def add_datum(cluster: Clusters, y: Array | float) -> Clusters:
    """The statistics with one datum more (Welford)."""
    size = cluster.size + 1.0
    deviation = y - cluster.mean
    mean = cluster.mean + deviation / size
    return Clusters(size, mean, cluster.spread + deviation * (y - mean))


def remove_datum(cluster: Clusters, y: Array | float) -> Clusters:
    """Undo `add_datum`. One datum has no spread and none no mean, whatever was rounded before."""
    size = cluster.size - 1.0
    deviation = y - cluster.mean
    mean = cluster.mean - deviation / jnp.maximum(size, 1.0)
    spread = jnp.maximum(cluster.spread - deviation * (y - mean), 0.0)
    return Clusters(size, jnp.where(size > 0.5, mean, 0.0), jnp.where(size > 1.5, spread, 0.0))


def gather_clusters(labels: Labels, data: Float[Array, " data"], num_data: Array | int) -> Clusters:
    """Statistics of the first `num_data` data, whose labels are slots."""
    slots = jnp.arange(data.shape[0], dtype=jnp.int32)[:, None]

    def add(i: Array | int, clusters: Clusters) -> Clusters:
        return choose(slots == row_of(labels, i), add_datum(clusters, data[i]), clusters)

    empty = jnp.zeros(labels.shape, data.dtype)
    return jax.lax.fori_loop(0, num_data, add, Clusters(empty, empty, empty))


def canonical_labels(labels: Labels, num_data: Array | int) -> Labels:
    """Number the clusters of the first `num_data` data by first appearance; -1 for other data."""
    known = jnp.arange(labels.shape[0], dtype=jnp.int32)[:, None] < num_data

    def number(i: Array | int, carry: tuple[Labels, Slots]) -> tuple[Labels, Slots]:
        numbered, next_number = carry
        new = row_of(numbered, i) < 0
        same = (labels == row_of(labels, i)) & new & known
        return jnp.where(same, next_number, numbered), next_number + new

    start = (jnp.full_like(labels, -1), jnp.zeros_like(labels[0]))
    return jax.lax.fori_loop(0, num_data, number, start)[0]


def side_by_side(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Make `function(keys, lanes, shared)` merge every `vmap` around it into its lane axis.

    `keys` and all arrays of `lanes` and of the result have a leading lane axis; the result of one
    lane must depend on that lane and on `shared` only. Ordinary `vmap` would put each run's loop
    bounds and branches under a mask. Where `shared` differs between runs, runs take turns.
    """
    call = custom_vmap(function)

    @call.def_vmap
    def merge(size: int, batched: Any, keys: Any, lanes: Any, shared: Any) -> Any:
        def fill(array: Any, is_batched: bool) -> Any:
            return array if is_batched else jnp.broadcast_to(array, (size, *array.shape))

        if any(jax.tree.leaves(batched[2])):
            everything = jax.tree.map(fill, (keys, lanes, shared), tuple(batched))
            result = jax.lax.map(lambda one: call(*one), everything)
        else:
            keys, lanes = jax.tree.map(fill, (keys, lanes), tuple(batched[:2]))
            flat = lambda a: a.reshape((a.shape[0] * a.shape[1], *a.shape[2:]))
            result = call(*jax.tree.map(flat, (keys, lanes)), shared)
            result = jax.tree.map(lambda a: a.reshape((size, -1, *a.shape[1:])), result)
        return result, jax.tree.map(lambda _: True, result)

    return call
