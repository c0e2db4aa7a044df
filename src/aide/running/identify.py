"""What an algorithm computes, asked of the runner that would run it."""

from typing import Any

import jax

from aide._core.identity import Identity
from aide._core.random import as_key
from aide._core.types import Key
from aide.running.call import one_call
from aide.running.choose import runner_of
from aide.running.device import current_place


@one_call()
def identity_of(algorithm: Any, key: Key | None = None) -> Identity:
    """Trace an algorithm and digest what was traced; nothing is compiled or run.

    Args:
        algorithm: The algorithm.
        key: A key of the generator that will be used, of which only the kind matters; JAX's default
            generator unless stated.
    """
    key = jax.random.key(0) if key is None else as_key(key)
    with current_place().entered():
        return runner_of(algorithm).identity(key)
