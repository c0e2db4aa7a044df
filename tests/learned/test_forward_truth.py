"""Output densities from grids, chains run forwards and momenta, against exact ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.chain_truth import leapfrog_map, radial_truth
from reference.forward_truth import Langevin, forward_density, sgld_cumulants, sgld_truth
from reference.momentum_truth import backward_density
from scipy import stats


def test_sgld_on_a_grid_has_the_right_cumulants():
    pulls, slope, h = np.array([1.0, 2.0, 6.0]), 4.0, 0.4
    logs = [lambda x, s=s: stats.norm.logpdf(x, 0.0, s) for s in (1.0, 0.5)]
    grid = np.arange(-8.0, 8.0, 0.02)
    drifts = lambda x: pulls[:, None] - slope * x
    truth = sgld_truth([7], logs[0], logs[1], drifts, h, grid)[7]
    q = np.exp(truth.log_q(grid)) * 0.02
    mean = grid @ q
    found = [mean, *(((grid - mean) ** k) @ q for k in (2, 3))]
    assert found == pytest.approx(sgld_cumulants(7, (0.0, 1.0), pulls, slope, h), rel=1e-6)


@pytest.mark.full
def test_chains_run_forwards_give_the_density_of_mala():
    """Within 5 jackknife errors of the exact radial density; rejections must be among the steps."""
    normal = lambda s: lambda x: -0.5 * jnp.sum((x / s) ** 2) - 2 * jnp.log(s * (2 * jnp.pi) ** 0.5)
    chain = Langevin(
        lambda key: 1.5 * jax.random.normal(key, (2,), float), normal(1.5), normal(0.5), 0.6
    )
    points = np.array([[0.1, 0.2], [0.6, -0.5], [-1.2, 0.3]])
    exact = radial_truth([3], 2, 1.5, 0.5, 0.0, leapfrog_map(0.6, 1, 0.5), 400)[3]
    found = forward_density(jax.random.key(1), chain, 3, points, 8, 2000)
    errors = [found.spread(row)[0] for row in np.eye(3)]
    gaps = found.log_q - exact.log_q(points)
    assert np.max(errors) < 0.1
    assert np.max(np.abs(gaps) / errors) < 5


@pytest.mark.full
@pytest.mark.parametrize("num_leapfrog", [1, 3])
def test_momenta_integrated_out_give_the_density_of_hmc(num_leapfrog):
    """Within 5 jackknife errors of the exact radial density, and far from that of another path."""
    normal = lambda s: lambda x: -0.5 * jnp.sum((x / s) ** 2) - 2 * jnp.log(s * (2 * jnp.pi) ** 0.5)
    points = np.array([[0.1, 0.2], [0.6, -0.5], [-1.2, 0.3]])
    # A start narrower than the posterior: the mean is over ratios of the two, which are bounded.
    density = normal(0.6), normal(0.8), (0.6, num_leapfrog)
    found = backward_density(jax.random.key(1), *density, 3, points, 8, 1)
    errors = [found.spread(row)[0] for row in np.eye(3)]
    maps = [leapfrog_map(h, num_leapfrog, 0.8) for h in (0.6, 0.4)]
    truths = [radial_truth([3], 2, 0.6, 0.8, 0.0, one, 800)[3].log_q(points) for one in maps]
    exact, other = (np.max(np.abs(found.log_q - truth) / errors) for truth in truths)
    assert exact < 5 < other
