"""The diagnostics that AIDE is compared with agree with ArviZ; each can pass and complain."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks.faulty_fits import all_cases, by_quadrature
from benchmarks.peers.diagnostics import (
    bulk_ess,
    rank_p_value,
    rank_rhat,
    stein_p_value,
    tarp_p_value,
)

CLEAR = 1e-6
"""Of a p-value: what chance alone brings once in a million."""


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rhat_and_ess_are_those_of_arviz(offset):
    import_module("arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version at every import
        import arviz

    rng = np.random.default_rng(0)
    chains = np.cumsum(rng.normal(size=(4, 200)), axis=1) * 0.05 + rng.normal(size=(4, 200))
    chains[0] += offset
    found = rank_rhat(chains[..., None]), bulk_ess(chains[..., None])
    assert found[0] == pytest.approx(float(arviz.rhat(chains, method="rank")), abs=2e-3)
    # Both estimate one sum of autocorrelations, and differ by 3% here.
    assert found[1] == pytest.approx(float(arviz.ess(chains, method="bulk")), rel=0.1)


def test_the_stein_discrepancy_sees_a_width_and_not_exact_draws():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(300, 2))
    assert stein_p_value(draws, -draws, rng) > CLEAR
    assert stein_p_value(0.5 * draws, -0.5 * draws, rng) == 1 / 500  # the least there is


@pytest.mark.parametrize(("width", "right"), [(1.0, True), (0.6, False)])
def test_calibration_sees_a_width(width, right):
    """Posterior N(y, 1) for a flat prior: the truth is y + noise."""
    rng = np.random.default_rng(2)
    data = rng.normal(size=(400, 1))
    truth = data + rng.normal(size=(400, 1))
    draws = data[:, None] + width * rng.normal(size=(400, 63, 1))
    points = 3 * rng.normal(size=(400, 1))
    assert (rank_p_value(truth, draws, rng) > CLEAR) == right
    assert (tarp_p_value(truth, draws, points) > CLEAR) == right


def test_divergences_of_the_cases_are_those_of_their_densities():
    """By Monte Carlo, within five standard errors, and one closed form by quadrature."""
    import jax

    with jax.enable_x64(True):
        for case in (case for case in all_cases() if not case.is_chain):
            posterior, fit = case.posterior(case.observed), case.fit(case.observed)
            total, variance = 0.0, 0.0
            for sign, law in ((1, posterior), (-1, fit)):
                draws = jax.vmap(law.sample)(jax.random.split(jax.random.key(3), 20_000))
                both = [jax.vmap(each.log_prob)(draws) for each in (posterior, fit)]
                ratio = sign * np.asarray(both[0] - both[1])
                total, variance = total + ratio.mean(), variance + ratio.var() / ratio.size
            assert abs(total - case.divergence) <= 5 * variance**0.5 + 1e-9, case.name
    normal = lambda mean: lambda x: -0.5 * (x - mean) ** 2 - 0.5 * np.log(2 * np.pi)
    assert by_quadrature(normal(0.0), normal(2.0)) == pytest.approx(4.0)
