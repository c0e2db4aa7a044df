r"""Origins weighed on the walk back, by enumeration: $\sum_v J(v \mid y)\,\xi(v, y) = q(y)$.

One step of the finite stand-in for NUTS, with arbitrary tables $J(y, v)$ in place of a model.
"""

import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.clockwork import GAMMA, NOISE, NUM_NOISES, NUM_STATES, START, Clockwork, log_gamma

import aide
from aide._core.numerics import FlatLayout
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.learned.models.joint import Proposed
from aide.learned.records.transitions import FlatKernel, StepRecord
from aide.learned.reverse_particles import begin, step_back

KERNEL = Clockwork(3, "stan", 3.0)
TABLE = np.random.default_rng(8).uniform(0.01, 1.0, (NUM_STATES, NUM_NOISES))


class Scripted(eqx.Module):
    """A model by table that proposes what the script says; or the kernel in equilibrium."""

    tilts: ClassVar[bool] = False

    table: Any
    script: Any
    equilibrium: bool = eqx.field(static=True, default=False)

    def score(self, y, log_density):
        log_q = jnp.log(jnp.sum(jnp.asarray(self.table)[y[0].astype(int)], axis=1))
        return log_q[None], log_q

    def propose(self, uniform, white, scores, y):
        num = len(self.script)
        return Proposed(jnp.zeros(num, bool), self.script[None], jnp.zeros(num, jnp.int32))

    def log_joint(self, scores, y, noise, branch, possible, log_own):
        state = y[0].astype(int)
        if self.equilibrium:
            return jnp.log(jnp.asarray(GAMMA))[state] + log_own
        return jnp.log(jnp.asarray(self.table))[state, noise[0].astype(int)]


@pytest.fixture(scope="module")
def estimates():
    """Log xi of one step back from y with scripted noises, two particles."""
    with jax.enable_x64(True):
        kernel = FlatKernel(KERNEL, log_gamma, FlatLayout(jnp.zeros((), jnp.int32)))

    def run(y, script, start, equilibrium):
        model, key = Scripted(TABLE, script, equilibrium), jax.random.key(0)
        flat = jnp.full(1, y, float)
        population = begin(key, flat, log_gamma(y), model, 2, jnp.asarray(False))
        blank = StepRecord(flat, jnp.zeros(()), jnp.zeros(1), jnp.zeros((), int))
        log_start = lambda x: jnp.log(jnp.asarray(start))[x[0].astype(int)]
        before = lambda x, density: (jnp.zeros((1, x.shape[1])), log_start(x), density)
        population, _ = step_back(key, kernel, model, before, aide.smc.Never(), population, blank)
        return population.log_estimate(), population.log_weights

    with jax.enable_x64(True):
        quick = {"compiler_options": QUICK_OPTIONS}
        return jax.jit(jax.vmap(run, (0, 0, None, None)), static_argnums=3, **quick)


SCRIPTS = [
    (y, v) for y in range(NUM_STATES) for v in itertools.product(range(NUM_NOISES), repeat=2)
]


@pytest.mark.full
def test_every_noise(estimates, x64):
    """Two particles: their noises are independent draws from the conditional of the table."""
    ys, scripts = (np.array(part) for part in zip(*SCRIPTS, strict=True))
    log_xi, _ = estimates(ys, scripts.astype(float), START, False)
    conditional = TABLE / TABLE.sum(axis=1, keepdims=True)
    chance = conditional[ys[:, None], scripts].prod(axis=1)
    mean = np.bincount(ys, chance * np.exp(np.asarray(log_xi)))
    with jax.enable_x64(True):
        pairs = [(x, v) for x in range(NUM_STATES) for v in range(NUM_NOISES)]
        orbit = lambda x, v: KERNEL.orbit(log_gamma, x, v)
        xs, vs = (jnp.array(part) for part in zip(*pairs, strict=True))
        found = jax.jit(jax.vmap(orbit))(xs.astype(jnp.int32), vs.astype(float))
    q = np.zeros(NUM_STATES)
    for (x, v), value, log_chance in zip(pairs, found.value, found.log_chance, strict=True):
        np.add.at(q, np.asarray(value), START[x] * NOISE[x, v] * np.exp(np.asarray(log_chance)))
    np.testing.assert_allclose(mean, q, rtol=0, atol=1e-12)
    # Control: the table of another state in place of the one that was proposed from.
    wrong = conditional[(ys[:, None] + 1) % NUM_STATES, scripts].prod(axis=1)
    assert np.abs(np.bincount(ys, wrong * np.exp(np.asarray(log_xi))) - q).max() > 0.01


@pytest.mark.full
def test_in_equilibrium_every_weight_is_one(estimates, x64):
    ys, scripts = (np.array(part) for part in zip(*SCRIPTS, strict=True))
    _, log_weights = estimates(ys, scripts.astype(float), GAMMA, True)
    np.testing.assert_allclose(log_weights, 0.0, rtol=0, atol=1e-12)
