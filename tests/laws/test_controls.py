"""The laws can fail: each common mistake is rejected, on the same instances that pass when right.

Rejected means twice the limit that right algorithms keep. What some law cannot see is stated too.
"""

import numpy as np
import pytest
from support import Z_MAX, laws, wrong
from support.registry import REGISTRY

import aide


def binned(entry):
    return laws.swap_z(laws.log_ratios(laws.law_draws(entry)))


def exchange(entry):
    return laws.exchange_z(laws.log_ratios(laws.law_draws(entry)))


def density(entry):
    return laws.density_z(laws.law_draws(entry), entry.log_h, entry.log_z)


def mass(entry):
    return laws.mass_z(laws.law_draws(entry), entry.log_z)


def probe(entry):
    return laws.probe_z(laws.law_draws(entry), entry.log_z)


def against_itself(entry):
    return laws.self_z(laws.log_ratios(laws.law_draws(entry)))


def point(entry):
    return laws.point_z(entry, 0.9)


CONTROLS = [
    ("filter-optimal-1", wrong.retained_weight, probe),
    ("gibbs-ais", wrong.sweep_not_reversed, binned),
    ("schedule-walk-1", wrong.WrongKernelOrder, probe),
    ("sir-2", wrong.WrongSumTwice, point),
    ("filter-systematic-3", wrong.unconditional_resampling, exchange),
    ("sir-2", wrong.WrongSign, against_itself),
    ("tractable", wrong.WrongConstant, density),
    ("tractable", wrong.WrongConstant, mass),
]
AGAIN = [
    ("filter-optimal-1", wrong.retained_weight, binned),
    ("sir-2", wrong.WrongSumTwice, density),
    ("sir-2", wrong.WrongSign, binned),
    ("tractable", wrong.WrongConstant, point),
    ("filter-optimal-2", wrong.retained_weight, probe),
    ("filter-ess-2", wrong.WrongPolicy, binned),
    ("sir-2", wrong.WrongUnconditional, exchange),
    ("sir-2", wrong.WrongSum, binned),
    ("filter-prior-2", wrong.WrongSumTwice, mass),
    ("tempered-walk-3", wrong.WrongUnconditional, binned),
    ("sir-2", wrong.WrongExtraParticle, binned),
    ("filter-stratified-3", wrong.unconditional_resampling, exchange),
    ("tempered-walk-1", wrong.temperature, exchange),
    ("schedule-hmc-2", wrong.WrongKernelOrder, probe),
]
"""Mistakes of other algorithms of a family, and laws that the controls above show to have power."""
CASES = [*CONTROLS, *(pytest.param(*case, marks=pytest.mark.full) for case in AGAIN)]


@pytest.mark.parametrize(
    ("name", "mistake", "law"),
    CASES,
    ids=lambda part: getattr(part, "__name__", part),
)
def test_law_rejects(name, mistake, law):
    entry = REGISTRY[name]
    assert abs(law(entry._replace(algorithm=mistake(entry.algorithm)))) > 2 * Z_MAX


def test_law_3_rejects_the_wrong_retained_weight():
    entry = REGISTRY["filter-optimal-1"]
    draws = laws.law_draws(entry._replace(algorithm=wrong.retained_weight(entry.algorithm)))
    assert np.mean(np.abs(laws.log_ratios(draws)) > 0.1) > 0.5


def test_swap_symmetry_is_blind_to_a_shared_constant():
    """Both operations forget the same log P: only laws 1 and 5 see it."""
    entry = REGISTRY["sir-2"]
    forgets = entry._replace(algorithm=wrong.WrongSumTwice(entry.algorithm))
    assert abs(binned(forgets)) < Z_MAX
    assert abs(density(forgets)) > 2 * Z_MAX


@pytest.mark.full
def test_multinomial_resampling_needs_no_twin():
    """Its slots are exchangeable, so the unconditional scheme with a pinned slot is right."""
    entry = REGISTRY["filter-prior-2"]
    pinned = entry._replace(algorithm=wrong.unconditional_resampling(entry.algorithm))
    assert abs(binned(pinned)) < Z_MAX
    assert isinstance(entry.algorithm.resampler.scheme, aide.smc.Multinomial)
