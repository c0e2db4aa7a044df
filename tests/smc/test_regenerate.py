r"""Law 1 of the shipped particle filter as it is: $E_{u\sim r(\cdot;x)}[\xi(u, x)] = q(x)$.

`regenerate` runs with its own random numbers at each of the 8 paths of the HMM in
`reference.hmm`; $q(x)$ is the exact output density by enumeration. `simulate` must draw paths with
those probabilities.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.hmm import (
    EMISSION,
    INITIAL,
    OBSERVATIONS,
    PATHS,
    TRANSITION,
    bootstrap,
    enumerate_filter,
    optimal,
)
from reference.resampling import LAWS, TWINS
from support import Z_MAX, z_score

import aide
from aide.algorithms.particle_filter import FirstState
from aide.problems import HiddenMarkovModel
from aide.smc.resampling import AbstractScheme
from aide.smc.sweep import start

MODEL = HiddenMarkovModel(INITIAL, TRANSITION, EMISSION, OBSERVATIONS)


class WrongUnconditionalTwin(AbstractScheme):
    """Control: no twin at all, an unconditional draw with the retained particle put back."""

    scheme: AbstractScheme

    def ancestors(self, key, weights):
        return self.scheme.ancestors(key, weights)

    def conditional(self, key, weights, retained):
        return self.ancestors(key, weights).at[retained].set(retained), retained


@eqx.filter_jit
def regenerate_all(algorithm, keys):
    """Xi of every path and draw, [8, N]."""
    keys = keys.reshape(len(PATHS), -1)
    runs = jax.vmap(jax.vmap(algorithm.regenerate, (0, None)))
    return jnp.exp(runs(keys, jnp.asarray(PATHS)))


def worst_z(algorithm, q, seed, num_draws=30_000):
    """Largest |z| over the paths of the mean of xi against q(x)."""
    keys = jax.random.split(jax.random.key(seed), len(PATHS) * num_draws)
    xi = np.asarray(regenerate_all(algorithm, keys))
    return max(abs(z_score(row, expected)) for row, expected in zip(xi, q, strict=True))


def bootstrap_filter(scheme, num):
    return aide.ParticleFilter(MODEL.state_space(), num, resampler=aide.smc.EveryStep(scheme))


def output_density(tables, num, fraction, name):
    found = enumerate_filter(tables, num, fraction, LAWS[name], TWINS[name])
    return found.by_path(found.q)


def cases(names, fast):
    """All schemes with 2 and 3 particles; those not in `fast` run in the full suite only."""
    pairs = itertools.product(names, (2, 3))
    return [pytest.param(*p, marks=[] if p in fast else [pytest.mark.full]) for p in pairs]


FAST = [("systematic", 3)]
WRONG_FAST = [("systematic", 3)]
UNEVEN = ["stratified", "systematic", "residual"]


@pytest.mark.parametrize("num", [pytest.param(2, marks=pytest.mark.full), 3])
def test_the_first_retained_slot_is_uniform(x64, num):
    first = FirstState(MODEL.state_space(), None)

    def slot(first, key):
        return start(key, first.sample, first.log_weight, num, jnp.asarray(0)).retained

    keys = jax.random.split(jax.random.key(20), 100_000)
    slots = np.asarray(jax.jit(jax.vmap(slot, (None, 0)))(first, keys))
    for index in range(num):
        assert abs(z_score(slots == index, 1 / num)) < Z_MAX
        assert abs(z_score(slots == index, 1 / (num + 1))) > 2 * Z_MAX  # control


@pytest.mark.parametrize(("name", "num"), cases(LAWS, FAST))
def test_regenerate_is_unbiased(x64, name, num):
    algorithm = bootstrap_filter(getattr(aide.smc, name.capitalize())(), num)
    assert worst_z(algorithm, output_density(bootstrap(), num, np.inf, name), 21) < Z_MAX


@pytest.mark.parametrize(("name", "num"), cases(UNEVEN, WRONG_FAST))
def test_regenerate_without_a_twin_is_rejected(x64, name, num):
    algorithm = bootstrap_filter(
        WrongUnconditionalTwin(getattr(aide.smc, name.capitalize())()), num
    )
    q = output_density(bootstrap(), num, np.inf, name)
    num_draws = 200_000 if (name, num) == ("residual", 2) else 50_000  # z is 8 there at 50,000
    assert worst_z(algorithm, q, 21, num_draws) > 2 * Z_MAX


@pytest.mark.parametrize(("name", "num"), cases(LAWS, []))
def test_regenerate_is_unbiased_with_adaptive_resampling(x64, name, num):
    scheme = getattr(aide.smc, name.capitalize())()
    proposal, resampler = MODEL.optimal_proposal(), aide.smc.EssBelow(0.8, scheme)
    algorithm = aide.ParticleFilter(MODEL.state_space(), num, proposal, resampler)
    assert worst_z(algorithm, output_density(optimal(), num, 0.8, name), 22) < Z_MAX


@pytest.mark.parametrize("name", ["bootstrap", pytest.param("optimal", marks=pytest.mark.full)])
def test_one_particle_knows_its_density(x64, name):
    tables = {"bootstrap": bootstrap(), "optimal": optimal()}[name]
    proposal = None if name == "bootstrap" else MODEL.optimal_proposal()
    algorithm = aide.ParticleFilter(MODEL.state_space(), 1, proposal)
    keys = jax.random.split(jax.random.key(23), len(PATHS) * 3)
    xi = np.asarray(regenerate_all(algorithm, keys))
    q = output_density(tables, 1, np.inf, "multinomial")
    np.testing.assert_allclose(xi, np.repeat(q[:, None], 3, axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "num"), cases(LAWS, [("residual", 3)]))
def test_simulate_draws_from_the_output_density(x64, name, num):
    algorithm = bootstrap_filter(getattr(aide.smc, name.capitalize())(), num)
    keys = jax.random.split(jax.random.key(24), 100_000)
    paths = eqx.filter_jit(lambda a, k: jax.vmap(a.simulate)(k).value)(algorithm, keys)
    hits = (np.asarray(paths) @ (4, 2, 1))[:, None] == np.arange(len(PATHS))
    q = output_density(bootstrap(), num, np.inf, name)
    assert max(abs(z_score(hit, p)) for hit, p in zip(hits.T, q, strict=True)) < Z_MAX
    wrong = output_density(bootstrap(), num - 1, np.inf, name)  # control: a particle fewer
    assert max(abs(z_score(hit, p)) for hit, p in zip(hits.T, wrong, strict=True)) > 2 * Z_MAX
