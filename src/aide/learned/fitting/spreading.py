"""Moves of a chain's kernel, and states spread by them from where the chain never goes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from aide._core.random import derive_keys
from aide._core.types import Key
from aide.learned.models.joint import Stored
from aide.learned.records.recording import ChainRecorder
from aide.learned.records.transitions import Transitions
from aide.running.map_runs import map_runs

NUM_RUNS = 2000
"""Runs that show where the chain goes, two states of each."""
NUM_BINS, PER_BIN = 60, 16
SPREADING, MOST_ROUNDS = 16, 200
"""Moves per state and round, and rounds, in which states spread over the bins."""
Coordinate = Callable[[np.ndarray], np.ndarray]
"""Of many states, [n, d]."""


class Moved(NamedTuple):
    """Moves of one state: where they led, log densities there, the start's."""

    states: Stored
    log_density: Stored
    log_start: Stored


class Mover(NamedTuple):
    """Moves of the chain's kernel, as an operation of the engine."""

    transitions: Transitions
    num_moves: int


def visited_states(key: Key, transitions: Transitions) -> np.ndarray:
    """Where the chain is at the end and at a time in between, [2n, d]."""
    recorder, what = ChainRecorder(transitions), "the chain"
    rows = (np.arange(NUM_RUNS, dtype=np.uint32),)
    return np.concatenate(map_runs(_two_states, recorder, key, rows, what=what))


def _two_states(recorder: ChainRecorder, stream: Key, run: Any) -> tuple[Array, Array]:
    key_run, key_time = derive_keys(jax.random.fold_in(stream, run), 2)
    found = recorder.record(key_run)
    time = jax.random.randint(key_time, (), 0, recorder.transitions.num_steps)
    return found.last, found.trace[0].before[time]


def move(key: Key, mover: Mover, states: np.ndarray) -> Moved:
    """Moves of many states, [n, num_moves, ...]."""
    rows = (np.arange(len(states), dtype=np.uint32), states)
    return map_runs(_moves, mover, key, rows, what="the kernel")


def _moves(mover: Mover, stream: Key, run: Any, y: Array) -> Moved:
    """Moves of one state."""
    transitions = mover.transitions
    _, layout = transitions.start(jax.random.key(0))
    (kernel,) = transitions.kernels(transitions.last_inputs(), layout)
    keys = derive_keys(jax.random.fold_in(stream, run), mover.num_moves)
    x, _, _, log_density = jax.vmap(lambda key: kernel.record(key, y))(keys)
    return Moved(x, log_density, transitions.log_start(layout, x.T))


def spread(
    key: Key, transitions: Transitions, coordinate: Coordinate, bins: np.ndarray, missed: np.ndarray
) -> np.ndarray:
    """States in all bins, a few each, reached from the missed ones by moves of the kernel."""
    rng = np.random.default_rng(int(jax.random.bits(key, dtype=jnp.uint32)))
    states = missed[rng.choice(len(missed), NUM_BINS * PER_BIN)]
    kept, mover = _thin(rng, states, coordinate(states), bins), Mover(transitions, SPREADING)
    filled = -1
    for number in range(MOST_ROUNDS):
        full = kept[rng.choice(len(kept), NUM_BINS * PER_BIN)]  # one shape: compiled once
        new = move(jax.random.fold_in(key, number), mover, full).states
        states = np.concatenate([kept, new.reshape(-1, kept.shape[1])])
        kept = _thin(rng, states, coordinate(states), bins)
        if len(kept) == filled and number > NUM_BINS:
            break
        filled = len(kept)
    return kept


def _thin(
    rng: np.random.Generator, states: np.ndarray, phi: np.ndarray, bins: np.ndarray
) -> np.ndarray:
    """At most `PER_BIN` states of every bin; those below the lowest belong to it."""
    number = np.clip(np.digitize(phi, bins) - 1, 0, NUM_BINS)
    order = rng.permutation(len(states))
    order = order[number[order] < NUM_BINS]
    order = order[np.argsort(number[order], kind="stable")]
    sorted_number = number[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_number, sorted_number)
    return states[order[rank < PER_BIN]]
