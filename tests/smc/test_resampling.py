r"""The shipped schemes and twins have exactly the laws of `reference.resampling`: no sampling.

The uniforms of a scheme run over the midpoints of a grid on whose lines every breakpoint lies (the
weights are small integers), so that counting gives the law of the shipped code without any error.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.resampling import (
    LAWS,
    TWINS,
    WEIGHTS,
    ancestor_vectors,
    counts,
    index_of,
    twin,
    twin_in_own_slot,
)

import aide

CHUNK = 4096


def midpoints(*cells):
    """Midpoints of a grid with the given number of cells along each axis, one per row."""
    return (np.indices(cells).reshape(len(cells), -1).T + 0.5) / cells


def over_grid(monkeypatch, operation, num):
    """A function that runs `operation(*arguments)` with uniforms on a grid, and counts results.

    An operation asks for at most one scalar (first column) and one vector (other columns).
    """

    @jax.jit
    def batch(points, *arguments):
        def run(point):
            def uniform(key, shape=(), dtype=float):
                return point[1:] if shape else point[0]

            with monkeypatch.context() as patch:
                for module in ("smc.resampling", "_core.random"):
                    patch.setattr(f"aide.{module}.standard_uniform", uniform)
                return operation(*arguments)

        return jax.vmap(run)(points)

    def shares(scalar_cells, vector_cells, weights, retained):
        grid = midpoints(scalar_cells, *[vector_cells] * num)
        padded = np.resize(grid, (math.ceil(len(grid) / CHUNK), CHUNK, num + 1))
        arguments = jnp.asarray(weights, float), jnp.asarray(retained, jnp.int32)
        parts = [batch(points, *arguments) for points in padded]
        drawn = [np.concatenate(part)[: len(grid)] for part in zip(*parts, strict=True)]
        return counts(*drawn) / len(grid)

    return shares


def grid_sizes(name, weights):
    """Cells for the scalar and the vector of uniforms in `ancestors`, and for a scalar that
    chooses the slot of each particle, so that no cell contains a breakpoint.
    """  # noqa: D205
    num, total = len(weights), sum(weights)
    if name == "systematic":
        return total, 1, [2 * num * weight for weight in weights]
    slot_cells = [1 if name == "multinomial" else 2 * num * weight for weight in weights]
    return 1, total * max(num - 1, 1), slot_cells


@pytest.mark.parametrize("num", WEIGHTS)
@pytest.mark.parametrize("name", LAWS)
def test_exact_law_of_ancestors(x64, monkeypatch, name, num):
    scheme, key = getattr(aide.smc, name.capitalize())(), jax.random.key(0)
    shares = over_grid(monkeypatch, lambda w, b: (scheme.ancestors(key, w), b), num)
    for weights in WEIGHTS[num]:
        scalar_cells, vector_cells, _ = grid_sizes(name, weights)
        found = shares(scalar_cells, vector_cells, weights, 0)[0]
        law = LAWS[name](np.array(weights) / sum(weights))
        np.testing.assert_allclose(found, law, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num", WEIGHTS)
@pytest.mark.parametrize("name", LAWS)
def test_exact_law_of_the_twin(x64, monkeypatch, name, num):
    scheme, key = getattr(aide.smc, name.capitalize())(), jax.random.key(0)
    shares = over_grid(monkeypatch, lambda w, b: scheme.conditional(key, w, b), num)
    for weights in WEIGHTS[num]:
        normalised = np.array(weights) / sum(weights)
        expected = TWINS[name](LAWS[name](normalised), normalised)
        _, vector_cells, slot_cells = grid_sizes(name, weights)
        for retained in np.flatnonzero(weights):
            found = shares(slot_cells[retained], vector_cells, weights, retained)
            np.testing.assert_allclose(found, expected[retained], rtol=0, atol=1e-12)


def test_residual_counts_copies_up_to_rounding(x64):
    """49 * (1 / 49) is 0.9999999999999999: still one copy of each, with nothing left to draw."""
    scheme, weights = aide.smc.Residual(), jnp.ones(49)
    free, around = jax.jit(scheme.ancestors), jax.jit(scheme.conditional)
    np.testing.assert_array_equal(free(jax.random.key(0), weights), np.arange(49))
    ancestors, slot = around(jax.random.key(0), weights, jnp.asarray(7, jnp.int32))
    np.testing.assert_array_equal(ancestors, np.arange(49))
    assert int(slot) == 7


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("name", LAWS)
def test_laws_are_unbiased_and_normalised(name, num):
    for weights in WEIGHTS[num]:
        normalised = np.array(weights) / sum(weights)
        law = LAWS[name](normalised)
        numbers = (ancestor_vectors(num)[:, :, None] == np.arange(num)).sum(axis=1)
        np.testing.assert_allclose(law @ numbers, num * normalised, rtol=0, atol=1e-12)
        kept = TWINS[name](law, normalised).sum(axis=(1, 2))
        np.testing.assert_allclose(kept, normalised > 0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num", [2, 3])
def test_a_twin_in_its_own_slot_suits_exchangeable_slots(num):
    """After a random reordering of the slots, `Multinomial`'s twin is the general twin."""
    weights = np.array(WEIGHTS[num][0]) / sum(WEIGHTS[num][0])
    law = LAWS["multinomial"](weights)
    own, shuffled = twin_in_own_slot(law, weights), np.zeros((num, num, num**num))
    orders = list(itertools.permutations(range(num)))
    for order in orders:
        moved = index_of(ancestor_vectors(num)[:, order])
        shuffled[:, :, moved] += own[:, order] / len(orders)
    np.testing.assert_allclose(shuffled, twin(law, weights), rtol=0, atol=1e-12)
