"""Where random numbers come from: streams for runs and meta-runs, keys for particles."""

from typing import Any

import jax
import jax.numpy as jnp

from aide._types import Key

GOLD, TARGET = 0, 1
"""Roles: whose output a run produced."""
SIMULATE, OWN_META, CROSS_META = 0, 1, 2
"""Purposes within a run: the run itself; meta-inference of its own algorithm; of the other one."""


def as_key(key: Any) -> Key:
    """Accept new-style keys and old `PRNGKey` arrays; reject everything else by name."""
    dtype = getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.shape == ():
        return key
    if dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be a single JAX key such as jax.random.key(0), got {key!r}.")


def stream_key(key: Key, role: int, purpose: int) -> Key:
    """The key from which all runs of one role and purpose are derived."""
    return jax.random.fold_in(jax.random.fold_in(key, role), purpose)


def run_key(stream: Key, run: Any, meta: Any) -> Key:
    """The key of one run or meta-run: a function of (key, role, purpose, run, meta) alone.

    Batch size, order, device and the other algorithm cannot change it, so that runs can be
    shared, extended, resumed and distributed.
    """
    return jax.random.fold_in(jax.random.fold_in(stream, run), meta)


def particle_keys(key: Key, num: int) -> Key:
    """`num` keys for `num` particles, at no cost.

    Threefry is a keyed permutation: keys that differ in one bit give unrelated streams. Particle
    i gets the key's second word XOR i; `jax.random.split` would hash once more per particle,
    which halved the speed of a particle filter. The caller must not use `key` for anything else.
    """
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    if str(jax.random.key_impl(key)) != "threefry2x32":
        return jax.random.split(key, num)
    first, second = jax.random.key_data(key)
    words = [jnp.broadcast_to(first, (num,)), second ^ jnp.arange(num, dtype=jnp.uint32)]
    return jax.random.wrap_key_data(jnp.stack(words, axis=-1), impl="threefry2x32")
