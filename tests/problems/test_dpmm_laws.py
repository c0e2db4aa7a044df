r"""The six laws for SMC over three data, all hyperparameters free or all fixed.

Proven at 1, 2 and 3 particles, both proposals, 0, 1 and 2 sweeps: swap symmetry (law 2), the
integrated laws 1 and 5. The control, whose backward move leaves out the sweep, is rejected. (A
sweep in the wrong order hides from law 2 at this size; `test_dpmm_sweeps.py` sees it.)
One particle, the prior proposal and no sweeps draw from the prior: the reference of law 1.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from scipy import stats
from support import Z_MAX, laws
from support.injected import NextWrong

from aide.problems import DirichletMixture

Y = [0.3, 1.6, -0.8]
FIXED = {"alpha": 1.2, "m": 0.1, "r": 0.05, "nu": 6.0, "s": 1.0}
BOX = {"alpha": (0.1, 4.0), "m": (-1.5, 1.5), "r": (0.05, 3.0), "nu": (0.1, 4.0), "s": (0.1, 4.0)}
NUM = 8_000
NUM_FIXED = 12_000


def draws(num, proposal, num_sweeps):
    """Runs of the prior and of SMC, scored by both."""
    model = DirichletMixture(Y)
    target = model.smc(num, proposal=proposal, num_sweeps=num_sweeps)
    return laws.draw(model.smc(1), target, NUM, NUM, seed=num, keep_values=True)


def log_h(value):
    """The prior of hyperparameters and partition, cut down to a box of hyperparameters."""
    inside, log_mass = [], 0.0
    for name, (low, high) in BOX.items():
        inside.append((value[name] > low) & (value[name] < high))
        prior = stats.norm if name == "m" else stats.expon
        log_mass += math.log(prior.cdf(high) - prior.cdf(low))
    alpha, sizes = value["alpha"], jnp.sum(value["labels"] == jnp.arange(3)[:, None], axis=1)
    log_crp = jnp.sum(
        jnp.where(sizes > 0, jnp.log(alpha) + jnp.log(jnp.maximum(sizes - 1, 1)), 0.0)
    )
    log_crp = log_crp - jnp.sum(jnp.log(alpha + jnp.arange(3)))
    log_prior = -sum(value[name] for name in BOX if name != "m") - 0.5 * value["m"] ** 2
    log_prior = log_prior - 0.5 * math.log(2 * math.pi) - log_mass
    return jnp.where(jnp.all(jnp.stack(inside)), log_prior + log_crp, -jnp.inf)


@pytest.mark.full
@pytest.mark.parametrize("num", [1, 2, 3])
def test_laws(num):
    """One test per number of particles: what differs otherwise compiles nothing."""
    for proposal in ("prior", "optimal"):
        for num_sweeps in (0, 1, 2):
            check_laws(num, proposal, num_sweeps)


@pytest.mark.full
def test_laws_of_three_particles():
    check_laws(3, "optimal", 1)


def check_laws(num, proposal, num_sweeps):
    """Laws 1, 2, 3 and 5, and a wrong density that law 5 must notice."""
    found = draws(num, proposal, num_sweeps)
    ratio = laws.log_ratios(found)
    if num == 1 and num_sweeps == 0:
        assert np.max(np.abs(ratio)) < 1e-9
    else:
        assert laws.swap_information(ratio) > laws.MIN_INFORMATION
        assert abs(laws.swap_z(ratio)) < Z_MAX
        assert abs(laws.exchange_z(ratio)) < Z_MAX
    assert abs(laws.density_z(found, log_h)) < Z_MAX
    assert abs(laws.mass_z(found)) < Z_MAX
    assert abs(laws.probe_z(found)) < Z_MAX
    labels = found.target.values["labels"]
    assert {tuple(z) for z in labels.tolist()} == set(reference.partitions(3))
    too_small = lambda value: log_h(value) - math.log(2)
    assert abs(laws.density_z(found, too_small)) > 2 * Z_MAX


def frozen_z(num_sweeps, wrong):
    """Law 2 at one particle, prior proposal, hyperparameters fixed."""
    smc = DirichletMixture([0.0, 0.8, 1.6, 0.5], fixed=FIXED).smc(1, num_sweeps=num_sweeps)
    if wrong:
        smc = eqx.tree_at(lambda s: s.moves[0].move_at, smc, replace_fn=NextWrong)
    found = laws.draw(smc, smc, 1, NUM_FIXED, seed=4)
    return laws.swap_z(laws.log_ratios(found))


@pytest.mark.full
def test_swap_symmetry_with_fixed_hyperparameters():
    for num_sweeps in (1, 2):
        assert abs(frozen_z(num_sweeps, wrong=False)) < Z_MAX
    assert abs(frozen_z(1, wrong=True)) > 2 * Z_MAX


def test_settings_and_data_do_not_recompile():
    """Only the numbers of data and of particles are part of the structure."""
    one = DirichletMixture(Y).smc(3, proposal="prior", num_sweeps=0)
    other = DirichletMixture([5.0, 6.0, 7.0]).smc(3, proposal="optimal", num_sweeps=9)
    (leaves, structure), (others, same) = jax.tree.flatten(one), jax.tree.flatten(other)
    assert structure == same
    assert all(eqx.is_array(leaf) for leaf in leaves)
    assert [(a.shape, a.dtype) for a in leaves] == [(b.shape, b.dtype) for b in others]
