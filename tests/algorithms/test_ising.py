r"""Undirected models: AIS and tempered SMC on a 4 x 4 Ising grid against enumeration.

The partition function takes the place of the evidence: $E[\hat Z] = Z$, $E[\log\hat Z] \le \log Z$,
and the divergence from exact draws falls to 0 as the annealing schedule gets finer.
"""

import itertools

import jax
import numpy as np
import pytest
from support import Z_MAX, wrong, z_score
from support.laws import draw as quick_draw

import aide
from aide.problems import IsingModel

MODEL = IsingModel(0.3, 0.1)


def log_partition():
    """By enumeration in NumPy."""
    s = np.array(list(itertools.product((-1.0, 1.0), repeat=16))).reshape(-1, 4, 4)
    down, across = s[:, 1:] * s[:, :-1], s[:, :, 1:] * s[:, :, :-1]
    pairs = down.sum((1, 2)) + across.sum((1, 2))
    return float(np.logaddexp.reduce(0.3 * pairs + 0.1 * s.sum((1, 2))))


def annealed(num_particles, num_temperatures):
    return aide.tempered_smc(
        MODEL.uniform(),
        MODEL.log_density,
        kernel=MODEL.gibbs(),
        num_particles=num_particles,
        num_temperatures=num_temperatures,
    )


def relative_partition(algorithm, num_runs):
    """Each run's estimate of the partition function over its true value."""
    draws = quick_draw(MODEL.uniform(), algorithm, 1, num_runs, 30, keep_values=True)
    with jax.enable_x64(True):
        log_density = np.asarray(jax.vmap(MODEL.log_density)(draws.target.values))
    return np.exp(log_density - draws.target.own[:, 0] - log_partition())


def test_enumeration():
    with jax.enable_x64(True):
        assert float(MODEL.log_partition()) == pytest.approx(log_partition(), abs=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("num_particles", [1, 2, 3])
def test_partition_function_is_unbiased(num_particles):
    ratios = relative_partition(annealed(num_particles, 6), 2_000)
    assert abs(z_score(ratios, 1.0)) < 4


@pytest.mark.full
def test_a_kernel_one_temperature_ahead_is_rejected():
    """Moving at the temperature one is about to reweight to: the classic mistake in AIS."""
    ratios = relative_partition(wrong.one_temperature_ahead(annealed(1, 6)), 2_000)
    assert abs(z_score(ratios, 1.0)) > 2 * Z_MAX


@pytest.mark.full
def test_finer_schedules():
    """The divergence falls to 0; the log partition function is estimated from below."""
    results = [
        aide.summarise(quick_draw(MODEL.exact(), annealed(1, num), 400, 400, 30, keep_values=True))
        for num in (2, 8, 50)
    ]
    for worse, better in itertools.pairwise(results):
        error = np.hypot(worse.std_error, better.std_error)
        assert worse.value - better.value > Z_MAX * error
    _, middle, fine = results
    assert fine.value - 0.1 < Z_MAX * fine.std_error
    assert middle.value - 0.1 > Z_MAX * middle.std_error
    exact = log_partition()
    for result in results[:2]:
        comparison = aide.compare_log_evidence(result, MODEL.log_density)
        assert comparison.gold.value == pytest.approx(exact, abs=1e-9)
        assert exact - comparison.target.value > Z_MAX * comparison.target.std_error
