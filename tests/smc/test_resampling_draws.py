"""Draws of the shipped schemes and twins, with the library's own random numbers, cell by cell.

The laws are those of `reference.resampling`; `test_resampling.py` proves them without sampling.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.resampling import LAWS, TWINS, WEIGHTS, ZERO, counts, twin
from support import Z_MAX

import aide
from aide.smc.resampling import AbstractScheme

NUM_DRAWS = 200_000


class WrongPinned(AbstractScheme):
    """Control: an unconditional draw in which the retained particle overwrites its own slot."""

    scheme: AbstractScheme

    def ancestors(self, key, weights):
        return self.scheme.ancestors(key, weights)

    def conditional(self, key, weights, retained):
        return self.ancestors(key, weights).at[retained].set(retained), retained


def counter(operation, seed):
    """A function of weights and retained particle that counts (slot, ancestors) over draws."""
    keys = jax.random.split(jax.random.key(seed), NUM_DRAWS)
    batch = jax.jit(jax.vmap(operation, (0, None, None)))

    def count(weights, retained):
        drawn = batch(keys, jnp.asarray(weights, float), jnp.asarray(retained, jnp.int32))
        return counts(*(np.asarray(part) for part in drawn))

    return count


def worst_z(found, expected):
    """Largest |z| of the counts over all cells; infinite if an impossible cell occurred."""
    possible = expected > ZERO
    if found[~possible].any():
        return np.inf
    mean = NUM_DRAWS * expected[possible]
    # A certain cell has no spread: one draw elsewhere must show.
    spread = np.sqrt(np.maximum(mean * (1 - expected[possible]), 1e-3))
    return np.abs((found[possible] - mean) / spread).max()


@pytest.mark.parametrize("num", [pytest.param(2, marks=pytest.mark.full), 3])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n == "stratified" else n for n in LAWS]
)
def test_law_of_draws(x64, name, num):
    scheme = getattr(aide.smc, name.capitalize())()
    free = counter(lambda key, w, b: (scheme.ancestors(key, w), b), 11)
    kept = counter(scheme.conditional, 12)
    for weights in WEIGHTS[num]:
        normalised = np.array(weights) / sum(weights)
        law = LAWS[name](normalised)
        assert worst_z(free(weights, 0)[0], law) < Z_MAX
        for retained in np.flatnonzero(weights):
            expected = TWINS[name](law, normalised)[retained]
            assert worst_z(kept(weights, retained), expected) < Z_MAX


@pytest.mark.parametrize("num", [pytest.param(2, marks=pytest.mark.full), 3])
@pytest.mark.parametrize("name", ["stratified", "systematic", "residual"])
def test_law_of_draws_rejects_a_pinned_slot(x64, name, num):
    weights = WEIGHTS[num][0]
    normalised = np.array(weights) / sum(weights)
    kept = counter(WrongPinned(getattr(aide.smc, name.capitalize())()).conditional, 12)
    expected = twin(LAWS[name](normalised), normalised)[0]
    assert worst_z(kept(weights, 0), expected) > 2 * Z_MAX
