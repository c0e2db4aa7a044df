"""One particle after the other, computed side by side: nested `vmap`s become one axis of lanes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from aide._core.jax_compat import custom_vmap


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
