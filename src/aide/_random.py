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
    if dtype == jnp.uint32 and key.shape in ((2,), (4,)):
        key = jax.random.wrap_key_data(key, impl={2: "threefry2x32", 4: "rbg"}[key.shape[0]])
        dtype = key.dtype
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.shape == ():
        return _as_threefry(key)
    raise TypeError(f"key must be a single JAX key such as jax.random.key(0), got {key!r}.")


def _as_threefry(key: Key) -> Key:
    """Other generators are not vectorised run by run: chunks would change their numbers."""
    if str(jax.random.key_impl(key)) == "threefry2x32":
        return key
    threefry = jax.random.key(0, impl="threefry2x32")
    for word in jax.random.key_data(key).ravel():
        threefry = jax.random.fold_in(threefry, word)
    return threefry


def stream_key(key: Key, role: int, purpose: int) -> Key:
    """The key from which all runs of one role and purpose are derived."""
    return jax.random.fold_in(jax.random.fold_in(key, role), purpose)


def run_key(stream: Key, run: Any, meta: Any) -> Key:
    """The key of one run or meta-run: a function of (key, role, purpose, run, meta) alone.

    Batch size, order, device and the other algorithm cannot change it, so that runs can be
    shared, extended, resumed and distributed.
    """
    return jax.random.fold_in(jax.random.fold_in(stream, run), meta)


def derive(key: Key, index: Any) -> Key:
    """A new key for each index, like `jax.random.fold_in` at a tenth of its cost.

    Threefry is a keyed permutation, so keys need to be different, not random: hashing a key with
    Threefry before using it, as `split` and `fold_in` do, doubles the work of a small random draw.
    Here the second word is mixed with the index by a bijection (the finaliser of MurmurHash3) and
    then into the first. For one key, different indices never collide; nesting does not commute.
    As with `fold_in`, do not use `key` itself for anything else.

    Args:
        key: One key.
        index: An integer or an array of them; the result has its shape.
    """
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(key)
    index = jnp.asarray(index).astype(jnp.uint32)
    if str(jax.random.key_impl(key)) != "threefry2x32":
        folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(index.ravel())
        return folded.reshape(index.shape)
    words = jax.random.key_data(key)
    mixed = words[1] ^ (index * jnp.uint32(0x9E3779B9) + jnp.uint32(0x7F4A7C15))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    mixed = mixed ^ (mixed >> 16)
    first = words[0] ^ (mixed * jnp.uint32(0xCC9E2D51))
    data = jnp.stack([jnp.broadcast_to(first, mixed.shape), mixed], axis=-1)
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def derive_keys(key: Key, num: int) -> Key:
    """`num` keys, like `jax.random.split` at a tenth of its cost; see `derive`."""
    return derive(key, jnp.arange(num, dtype=jnp.uint32))
