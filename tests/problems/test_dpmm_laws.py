r"""The laws of `aide._algorithm` for SMC over three data, all hyperparameters free or all fixed.

Proven at 1, 2 and 3 particles, both proposals, 0, 1 and 2 sweeps: swap symmetry (law 2), the
integrated laws 1 and 5. The control, whose backward move does not reverse its sweep, is rejected.
One particle, the prior proposal and no sweeps draw from the prior: the reference of law 1.
"""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import dpmm as reference
from support import Z_MAX, laws

import aide
from aide.estimation.engine import split_algorithm
from aide.problems import DirichletMixture
from aide.problems.dpmm.clusters import canonical_labels, gather_clusters
from aide.problems.dpmm.hyperparameters import NAMES, from_value, to_value
from aide.problems.dpmm.move import AddDatum
from aide.problems.dpmm.rejuvenation import rejuvenate
from aide.problems.dpmm.state import Setting, make_state

Y = [0.3, 1.6, -0.8]
HYPER = {"alpha": 0.9, "m": 0.2, "r": 0.4, "nu": 2.3, "s": 0.6}
SHARP = {"alpha": 1.2, "m": 0.1, "r": 0.05, "nu": 6.0, "s": 1.0}
BOX = {"alpha": (0.3, 2.0), "m": (-1.0, 1.0), "r": (0.3, 2.0), "nu": (0.3, 2.5), "s": (0.3, 2.0)}
NUM = 10_000
SETTINGS = [
    (num, proposal, sweeps)
    for num in (1, 2, 3)
    for proposal in ("prior", "optimal")
    for sweeps in (0, 1, 2)
]


@functools.lru_cache
def draws(num, proposal, num_sweeps):
    """Runs of the prior and of SMC, scored by both."""
    model = DirichletMixture(Y)
    target = model.smc(num, proposal=proposal, num_sweeps=num_sweeps)
    return laws.draw(model.smc(1), target, NUM, NUM, seed=num, keep_values=True)


def log_h(value):
    """Uniform over the five partitions and over a box of hyperparameters."""
    inside = [(value[name] > low) & (value[name] < high) for name, (low, high) in BOX.items()]
    volume = math.prod(high - low for low, high in BOX.values())
    return jnp.where(jnp.all(jnp.stack(inside)), -math.log(5 * volume), -jnp.inf)


@pytest.mark.parametrize(("num", "proposal", "num_sweeps"), SETTINGS)
def test_laws(num, proposal, num_sweeps):
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


def test_a_missing_constant_is_noticed():
    """Law 5 with the density of 15 partitions where there are five."""
    too_small = lambda value: log_h(value) - math.log(3)
    assert abs(laws.density_z(draws(2, "optimal", 1), too_small)) > 2 * Z_MAX


def test_outputs_are_canonical():
    labels = draws(3, "optimal", 2).target.values["labels"]
    assert {tuple(z) for z in labels.tolist()} == set(reference.partitions(3))


class WrongAddDatum(AddDatum):
    """Backward drops the datum and sweeps in forward order."""

    def backward(self, key, y):
        """Not the reversal of the sweep."""
        once = AddDatum(self.data, self.num_seen, jnp.int32(0), self.optimal, self.frozen)
        x, log_w = once.backward(key, y)
        setting = Setting(
            jnp.asarray(self.data), self.num_seen, self.num_sweeps, self.optimal, self.frozen
        )
        labels, hyper = x["labels"][:, None], from_value({n: x[n][None] for n in NAMES})
        clusters = gather_clusters(labels, setting.data, self.num_seen)
        state = rejuvenate(key[None], make_state(labels, hyper, clusters), setting, False)
        labels = canonical_labels(state.labels, self.num_seen)[:, 0]
        return {"labels": labels, **{n: v[0] for n, v in to_value(state.hyper).items()}}, log_w


class WrongNext(eqx.Module):
    right: aide.WeightedMove

    def __call__(self, num_seen):
        """The wrong move in place of the right one."""
        move = self.right(num_seen)
        fields = ("data", "num_seen", "num_sweeps", "optimal", "frozen")
        return WrongAddDatum(*(getattr(move, name) for name in fields))


def frozen_z(num_sweeps, wrong):
    """Law 2 at one particle, prior proposal, hyperparameters fixed."""
    smc = DirichletMixture([-1.0, 0.9, 1.1, -0.8], fixed=SHARP).smc(1, num_sweeps=num_sweeps)
    if wrong:
        (steps,) = smc.moves
        smc = eqx.tree_at(
            lambda s: s.moves, smc, (aide.Steps(WrongNext(steps.move_at), steps.inputs),)
        )
    found = laws.draw(smc, smc, 1, 20_000, seed=4)
    return laws.swap_z(laws.log_ratios(found))


@pytest.mark.parametrize("num_sweeps", [1, 2])
def test_swap_symmetry_with_fixed_hyperparameters(num_sweeps):
    assert abs(frozen_z(num_sweeps, wrong=False)) < Z_MAX


def test_unreversed_sweep_is_noticed():
    assert abs(frozen_z(1, wrong=True)) > 2 * Z_MAX


def test_settings_and_data_do_not_recompile():
    """Only the numbers of data and of particles are compiled in."""
    one = DirichletMixture(Y).smc(3, proposal="prior", num_sweeps=0)
    other = DirichletMixture([5.0, 6.0, 7.0]).smc(3, proposal="optimal", num_sweeps=9)
    (structure, arrays), (same, others) = split_algorithm(one), split_algorithm(other)
    assert structure == same
    assert hash(structure) == hash(same)
    shape = lambda leaves: [(leaf.shape, leaf.dtype) for leaf in leaves]
    assert shape(arrays) == shape(others)


def test_results_do_not_depend_on_the_batch():
    smc = DirichletMixture(Y).smc(3, proposal="optimal", num_sweeps=1)
    results = [
        aide.draw(jax.random.key(3), smc, smc, num_gold=7, num_target=1, chunk_size=size)
        for size in (1, 7)
    ]
    assert results[0].gold.own == pytest.approx(results[1].gold.own, abs=1e-9)
