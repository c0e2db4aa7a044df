"""Particles and runs side by side give what each gives alone.

Proven: nested `vmap`s become one lane axis and nothing else changes, also where runs differ in what
they share; the move of the mixture gives the same states and weights alone and among others.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems.dpmm.clusters import side_by_side
from aide.problems.dpmm.move import AddDatum

NUM_LANES = []


@side_by_side
def walk(keys, lanes, shared):
    """As many random steps as `shared` says; notes how many lanes it sees."""
    NUM_LANES.append(lanes["x"].shape[0])
    steps = jax.vmap(lambda key: jax.random.normal(key))(keys)
    body = lambda _, x: 0.5 * x + steps
    return {"y": jax.lax.fori_loop(0, shared["times"], body, lanes["x"] + shared["shift"])}


def one(key, x, times, shift):
    """One lane."""
    return walk(key[None], {"x": x[None]}, {"times": times, "shift": shift})["y"][0]


def test_nested_batches_become_lanes(x64):
    keys = jax.random.split(jax.random.key(0), (3, 4))
    x = jnp.arange(12.0).reshape(3, 4)
    over_particles = jax.vmap(one, (0, 0, None, None))
    over_runs = jax.vmap(over_particles, (0, 0, None, None))
    NUM_LANES.clear()
    together = over_runs(keys, x, 3, 0.5)
    assert max(NUM_LANES) == 12
    alone = [[one(keys[i, j], x[i, j], 3, 0.5) for j in range(4)] for i in range(3)]
    assert np.asarray(together) == pytest.approx(np.array(alone), abs=1e-14)


def test_an_unbatched_argument_is_repeated(x64):
    keys = jax.random.split(jax.random.key(1), 5)
    together = jax.vmap(one, (0, None, None, None))(keys, jnp.asarray(2.0), 2, 0.1)
    alone = [one(key, jnp.asarray(2.0), 2, 0.1) for key in keys]
    assert np.asarray(together) == pytest.approx(np.array(alone), abs=1e-14)
    together = jax.vmap(one, (None, 0, None, None))(keys[0], jnp.arange(5.0), 2, 0.1)
    alone = [one(keys[0], jnp.asarray(float(x)), 2, 0.1) for x in range(5)]
    assert np.asarray(together) == pytest.approx(np.array(alone), abs=1e-14)


def test_runs_that_share_nothing_take_turns(x64):
    keys = jax.random.split(jax.random.key(2), 3)
    x, times, shift = jnp.arange(3.0), jnp.array([0, 2, 5]), jnp.array([0.0, 1.0, -1.0])
    together = jax.vmap(one)(keys, x, times, shift)
    alone = [one(keys[i], x[i], times[i], shift[i]) for i in range(3)]
    assert np.asarray(together) == pytest.approx(np.array(alone), abs=1e-14)


@pytest.mark.full
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_move_does_not_depend_on_its_neighbours(x64, direction):
    rng = np.random.default_rng(0)
    data = rng.normal(size=6)
    move = AddDatum(data, np.int32(4), np.int32(2), np.asarray(True), np.asarray(False))
    hyper = {name: rng.gamma(2.0, 1.0, 9) for name in ("alpha", "m", "r", "nu", "s")}
    seen = 4 if direction == "forward" else 5
    labels = np.full((9, 6), -1, np.int32)
    labels[:, :seen] = rng.integers(0, 3, (9, seen))
    x = {"labels": jnp.asarray(labels), **{name: jnp.asarray(v) for name, v in hyper.items()}}
    if direction == "forward":  # states of earlier moves are canonical
        x["labels"] = jnp.asarray(np.tile([0, 1, 0, 2, -1, -1], (9, 1)), jnp.int32)
    run = jax.vmap(getattr(move, direction))
    keys = jax.random.split(jax.random.key(3), 9)
    together = jax.jit(run, compiler_options=QUICK_OPTIONS)(keys, x)
    single = lambda key, value: run(key[None], jax.tree.map(lambda a: a[None], value))
    by_one = jax.jit(single, compiler_options=QUICK_OPTIONS)
    for i in range(9):
        alone = by_one(keys[i], jax.tree.map(lambda a, i=i: a[i], x))
        for part, whole in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            assert np.asarray(part[0]) == pytest.approx(np.asarray(whole[i]), abs=1e-10)
