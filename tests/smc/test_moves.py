r"""Weighted moves on nine states: kernels have their laws, weights obey the law of moves.

With the exact matrices $k$ and $\ell$ (`reference.annealing`) and the weights that the shipped
moves return: $\gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)\,\ell(x; y)$, hence
$\sum_x \gamma(x)\,k(y; x)\,w(x, y) = \gamma'(y)$.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.annealing import GAMMA, PRIOR, STATES, gibbs_sweep, metropolis, tempered
from reference.scripted import Table
from support import Z_MAX

import aide
from aide.algorithms.annealed import AnnealingStep

NUM_DRAWS = 50_000
TOLERANCE = 1e-10
SIZE = len(STATES)


class RingWalk(aide.kernels.AbstractMetropolis):
    """A lopsided random walk on the ring of states: +1 with probability 0.7, else -1."""

    def noise(self, key, x):
        return jnp.where(jax.random.uniform(key) < 0.7, 1, -1)

    def log_noise(self, x, v):
        return jnp.log(jnp.where(v == 1, 0.7, 0.3))

    def involution(self, log_density, x, v):
        index = (3 * x[0] + x[1] + v) % SIZE
        return jnp.stack([index // 3, index % 3]), -v


GIBBS = aide.kernels.GibbsSites((0, 1), 3)
JUMPS = np.broadcast_to(PRIOR, (SIZE, SIZE))
STEPS = 0.7 * np.roll(np.eye(SIZE), 1, axis=1) + 0.3 * np.roll(np.eye(SIZE), -1, axis=1)
COLD, WARM = tempered(0.3), tempered(0.7)
SWEEP, BACK = gibbs_sweep(GAMMA, (0, 1)), gibbs_sweep(GAMMA, (1, 0))
SWEEP_COLD, BACK_COLD = gibbs_sweep(COLD, (0, 1)), gibbs_sweep(COLD, (1, 0))
STAY, JUMP, WALK = np.eye(SIZE), metropolis(GAMMA, JUMPS), metropolis(GAMMA, STEPS)
CHAIN = aide.smc.Composition(
    aide.smc.Reweight(Table(PRIOR), Table(COLD)),
    aide.smc.Rejuvenate(GIBBS, Table(COLD)),
    aide.smc.Reweight(Table(COLD), Table(GAMMA)),
)
KERNELS = aide.smc.Composition(
    aide.smc.Rejuvenate(GIBBS, Table(GAMMA)),
    aide.smc.Rejuvenate(aide.kernels.Independence(Table(PRIOR)), Table(GAMMA)),
)
NEIGHBOURS: Any = (0.3, 0.7)
ANNEALING = AnnealingStep(Table(PRIOR), Table(GAMMA), GIBBS)(NEIGHBOURS)
MOVES = {  # move, gamma, gamma', k, l
    "reweight": (aide.smc.Reweight(Table(PRIOR), Table(GAMMA)), PRIOR, GAMMA, STAY, STAY),
    "gibbs": (aide.smc.Rejuvenate(GIBBS, Table(GAMMA)), GAMMA, GAMMA, SWEEP, BACK),
    "independence": (KERNELS.parts[1], GAMMA, GAMMA, JUMP, JUMP),
    "walk": (aide.smc.Rejuvenate(RingWalk(), Table(GAMMA)), GAMMA, GAMMA, WALK, WALK),
    "chain": (CHAIN, PRIOR, GAMMA, SWEEP_COLD, BACK_COLD),
    "chain of kernels": (KERNELS, GAMMA, GAMMA, SWEEP @ JUMP, JUMP @ BACK),
    "annealing": (ANNEALING, COLD, WARM, SWEEP_COLD, BACK_COLD),
}

PARTS = {"chain", "walk", "reweight", "independence"}
"""What other moves of the list are made of, or made from."""
NAMES = [pytest.param(n, marks=pytest.mark.full) if n in PARTS else n for n in MOVES]


@jax.jit
def draws(move, keys):
    """From every state: numbers of the states reached and log weights, forward and backward."""

    def both(x, key):
        there, back = move.forward(key, x), move.backward(key, x)
        return there[0] @ jnp.array([3, 1]), there[1], back[0] @ jnp.array([3, 1]), back[1]

    return jax.vmap(jax.vmap(both, (None, 0)), (0, None))(jnp.asarray(STATES), keys)


@cache
def drawn(name, seed):
    keys = jax.random.split(jax.random.key(seed), NUM_DRAWS)
    return [np.asarray(part) for part in draws(MOVES[name][0], keys)]


def worst_z(reached, matrix):
    """Largest |z| of all transition counts; infinite if an impossible one occurred."""
    counts = np.stack([np.bincount(row, minlength=SIZE) for row in reached])
    if counts[matrix < 1e-12].any():
        return np.inf
    spread = np.sqrt(np.maximum(NUM_DRAWS * matrix * (1 - matrix), 1e-3))
    return np.abs((counts - NUM_DRAWS * matrix) / spread).max()


def weight_table(reached, log_weights):
    """w[from, to], 0 where no draw went; the same for every draw that went there."""
    table, spread = np.zeros((SIZE, SIZE)), []
    for x in range(SIZE):
        for y in np.unique(reached[x]):
            weights = np.exp(log_weights[x][reached[x] == y])
            table[x, y] = weights[0]
            spread.append(np.ptp(weights))
    assert max(spread) < TOLERANCE
    return table


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.full
def test_law_of_the_kernels(x64, name):
    _, _, _, k, back = MOVES[name]
    there, _, here, _ = drawn(name, 31)
    assert worst_z(there, k) < Z_MAX
    assert worst_z(here, back) < Z_MAX


@pytest.mark.parametrize("name", NAMES)
def test_law_of_the_weights(x64, name):
    _, start, end, k, back = MOVES[name]
    there, log_w, here, log_w_back = drawn(name, 31)
    forward, backward = weight_table(there, log_w), weight_table(here, log_w_back).T
    for table in (forward, backward):
        np.testing.assert_array_equal(table > 0, k > 1e-12)  # every possible move was seen
        flow = start[:, None] * k * table
        np.testing.assert_allclose(flow, end * back.T, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(flow.sum(axis=0), end, rtol=0, atol=TOLERANCE)


def test_an_unreversed_sweep_is_rejected(x64):
    there, _, here, _ = drawn("gibbs", 31)
    assert worst_z(there, BACK) > 2 * Z_MAX
    assert worst_z(here, SWEEP) > 2 * Z_MAX
    assert np.abs(GAMMA[:, None] * SWEEP - (GAMMA[:, None] * SWEEP).T).max() > 1e-3
