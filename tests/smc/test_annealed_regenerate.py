r"""Law 1 of shipped annealing: the mean of $\xi$ over `regenerate` is the exact $q(x)$.

AIS and tempered SMC with Gibbs sweeps at each of the nine states of `reference.annealing`, with
the library's own random numbers; the control claims that a sweep is reversible.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.annealing import (
    GAMMA,
    PRIOR,
    STATES,
    TEMPERATURES,
    enumerate_ais,
    enumerate_smc,
    enumerate_sweeps,
)
from reference.resampling import LAWS, TWINS
from reference.scripted import Table
from support import Z_MAX, z_score

import aide

FORWARD, BACKWARD = (0, 1), (1, 0)
GIBBS = aide.kernels.GibbsSites(FORWARD, 3)
SCHEDULE: Any = np.array([0.4, 1.0])
NUM_DRAWS = 50_000


@eqx.filter_jit
def regenerate_all(algorithm, keys):
    """Xi of every state and draw, [9, N]."""
    runs = jax.vmap(jax.vmap(algorithm.regenerate, (0, None)))
    return jnp.exp(runs(keys.reshape(len(STATES), -1), jnp.asarray(STATES)))


def worst_z(algorithm, q, seed):
    keys = jax.random.split(jax.random.key(seed), len(STATES) * NUM_DRAWS)
    xi = np.asarray(regenerate_all(algorithm, keys))
    return max(abs(z_score(row, expected)) for row, expected in zip(xi, q, strict=True))


def annealed(kernel):
    return aide.ais(Table(PRIOR), Table(GAMMA), kernel=kernel, temperatures=TEMPERATURES)


@pytest.mark.full
def test_ais_is_unbiased_and_an_unreversed_sweep_is_rejected(x64):
    laws = enumerate_ais(FORWARD, BACKWARD)
    q = np.bincount(laws.traces[:, 2], laws.q)
    assert worst_z(annealed(GIBBS), q, 41) < Z_MAX
    wrong = aide.kernels.Kernel(GIBBS.step, reversible=True)
    assert worst_z(annealed(wrong), q, 41) > 2 * Z_MAX


def test_ais_with_a_kernel_per_temperature_is_unbiased_and_their_order_matters(x64):
    forward, backward = ((1, 1), (0, 1)), ((1, 1), (1, 0))
    laws = enumerate_sweeps(forward, backward)
    q = np.bincount(laws.traces[:, 2], laws.q)
    sweeps = [aide.kernels.GibbsSites(sites, 3) for sites in forward]
    assert worst_z(annealed(sweeps), q, 43) < Z_MAX
    assert worst_z(annealed(sweeps[::-1]), q, 43) > 2 * Z_MAX


@pytest.mark.full
def test_tempered_smc_is_unbiased(x64):
    laws = enumerate_smc(0.4, LAWS["systematic"], TWINS["systematic"], FORWARD, BACKWARD)
    q = np.bincount(laws.last.ravel(), laws.q.ravel())
    algorithm = aide.tempered_smc(
        Table(PRIOR),
        Table(GAMMA),
        kernel=GIBBS,
        num_particles=2,
        temperatures=SCHEDULE,
        resampler=aide.smc.EveryStep(aide.smc.Systematic()),
    )
    assert worst_z(algorithm, q, 42) < Z_MAX
    shifted = enumerate_smc(0.6, LAWS["systematic"], TWINS["systematic"], FORWARD, BACKWARD)
    wrong = np.bincount(shifted.last.ravel(), shifted.q.ravel())  # control: another schedule
    assert worst_z(algorithm, wrong, 42) > 2 * Z_MAX
