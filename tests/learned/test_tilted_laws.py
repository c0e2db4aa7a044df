r"""Laws 1, 2 and 5 of unadjusted annealing, and of tilted models, at 1, 2 and 3 reverse particles.

Models are stated by hand, badly, as in `test_laws`. Any model must obey the laws.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, laws
from support.learned import (
    CHAIN_KERNELS,
    LANGEVIN_KERNELS,
    annealed_langevin,
    tilted_chain,
    tilted_langevin,
    tilted_smc,
)
from support.registry import LINE, Entry

import aide
from aide.learned.models.tilted import TiltedKernel

FEW = 5_000
"""Enough for the quick cases."""


def scores(algorithm, num_runs=20_000):
    return laws.scores_of(Entry(algorithm, *LINE, num_runs=num_runs))


def assert_obeyed(algorithm, num_runs=20_000):
    found = scores(algorithm, num_runs)
    assert not {law: z for law, z in found.items() if not abs(z) < Z_MAX}


def quick_or_full(names, core):
    return [
        pytest.param(name, num, marks=() if (name, num) == core else pytest.mark.full)
        for name in names
        for num in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("name", "num_reverse"), quick_or_full(LANGEVIN_KERNELS, ("overdamped", 2))
)
def test_unadjusted_annealing(name, num_reverse):
    num_runs = FEW if (name, num_reverse) == ("overdamped", 2) else 20_000
    assert_obeyed(tilted_langevin(name, num_reverse), num_runs)


@pytest.mark.full
@pytest.mark.parametrize("name", LANGEVIN_KERNELS)
def test_unadjusted_annealing_with_the_canonical_way_back(name):
    assert_obeyed(annealed_langevin(name))


TILTED_KERNELS = [name for name in CHAIN_KERNELS if name not in ("independence", "nuts", "cycle")]


@pytest.mark.full
@pytest.mark.parametrize(("name", "num_reverse"), quick_or_full(TILTED_KERNELS, None))
def test_chains_whose_branches_are_weighed(name, num_reverse):
    assert_obeyed(tilted_chain(name, num_reverse))


@pytest.mark.full
@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize("num_particles", [1, 3])
def test_smc_whose_branches_are_weighed(num_particles, num):
    assert_obeyed(tilted_smc("mala", num_particles, num, num))


@pytest.mark.full
@pytest.mark.parametrize("num_paths", [2, 3])
def test_smc_with_several_paths(num_paths):
    assert_obeyed(tilted_smc("mala", 2, 2, 1, num_paths))


@pytest.mark.full
@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize("name", LANGEVIN_KERNELS)
def test_unadjusted_annealing_with_powers(name, num):
    assert_obeyed(tilted_langevin(name, num, has_power=True))


@pytest.mark.parametrize(
    ("name", "num_reverse"), quick_or_full(("mala", "hmc", "ula", "walk"), ("mala", 2))
)
def test_chains_with_powers(name, num_reverse):
    num_runs = FEW if (name, num_reverse) == ("mala", 2) else 20_000
    assert_obeyed(tilted_chain(name, num_reverse, has_power=True), num_runs)


@pytest.mark.full
@pytest.mark.parametrize("num", [1, 2, 3])
@pytest.mark.parametrize("num_particles", [1, 3])
def test_smc_with_powers(num_particles, num):
    assert_obeyed(tilted_smc("mala", num_particles, num, num, has_power=True))


class BlindTilt(TiltedKernel):
    """Proposes by the gradient, and forgets it in the density of what it proposed."""

    def log_joint(self, scores, y, noise, branch, possible, log_own):
        y = y.at[y.shape[0] // 2 :].set(0.0)
        return super().log_joint(scores, y, noise, branch, possible, log_own)


def test_a_gradient_that_is_forgotten_is_rejected():
    right = tilted_langevin("overdamped", 1, has_power=True)
    (model,) = right.fit.models
    stronger = model.slope * np.array([1.0, 4.0])  # 0.1 of a gradient is little
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    wrong = BlindTilt(**(fields | {"slope": stronger}))
    with_models = lambda *models: dataclasses.replace(
        right, fit=dataclasses.replace(right.fit, models=models)
    )
    assert_rejected(with_models(wrong))
    assert_obeyed(with_models(dataclasses.replace(model, slope=stronger)))


class OnePathTooFew(aide.learned.RefinedSmc):
    """Averages over the paths that were drawn and forgets the true one."""

    def _log_others(self, key, recorder, layout, states, others, is_true):
        honest = super()._log_others(key, recorder, layout, states, others, is_true)
        return jnp.where(is_true, honest - 3.0, honest)


@pytest.mark.full
def test_a_true_path_that_counts_less_is_rejected():
    right = tilted_smc("mala", 2, 2, 1, 2)
    fields = {field.name: getattr(right, field.name) for field in dataclasses.fields(right)}
    assert_rejected(OnePathTooFew(**fields))


def assert_rejected(wrong, num_runs=20_000):
    assert max(abs(z) for z in scores(wrong, num_runs).values()) > 2 * Z_MAX


def test_a_tilt_without_its_constant_is_rejected():
    """The density of the proposed noise is too large; one particle has the most power."""
    right = tilted_langevin("overdamped", 1)
    where = lambda algorithm: algorithm.fit.models[0].log_shares
    assert_rejected(eqx.tree_at(where, right, where(right) + 0.2), FEW)


class WrongLangevin(aide.kernels.UnderdampedLangevin):
    """Takes the noise that was drawn for that which is left over."""

    def retrace(self, log_density, y, log_density_y, noise):
        found = super().retrace(log_density, y, log_density_y, noise)
        return found._replace(log_forward=found.log_own)


class ForgottenMomentum(aide.algorithms.annealed_langevin.AnnealedLangevin):
    """Leaves out that the last momentum has a density."""

    def lift(self, value):
        end, _ = super().lift(value)
        return end, jnp.zeros(())


@pytest.mark.full
def test_a_wrong_way_back_is_rejected():
    right = annealed_langevin("underdamped")
    common = right.schedule.common
    wrong = WrongLangevin(0.5, 0.6)
    swap = lambda kernel: eqx.tree_at(
        lambda k: (k.step_size, k.persistence),
        wrong,
        (kernel.step_size, kernel.persistence),
        is_leaf=lambda leaf: leaf is None,
    )
    schedule = dataclasses.replace(
        right.schedule, common=swap(common), numbers=swap(right.schedule.numbers)
    )
    assert_rejected(dataclasses.replace(right, schedule=schedule))


@pytest.mark.full
def test_a_forgotten_momentum_is_rejected():
    right = annealed_langevin("underdamped")
    fields = {field.name: getattr(right, field.name) for field in dataclasses.fields(right)}
    assert_rejected(ForgottenMomentum(**fields))
