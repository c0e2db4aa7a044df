r"""Underdamped Langevin: a step is undone from its record, by a map of Jacobian 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import aide
from aide.kernels.langevin import Phase, PhaseDensity
from aide.kernels.metropolis import log_standard_normal
from aide.problems.distributions import Normal

COVARIANCE = np.array([[1.0, 0.5], [0.5, 2.0]])
KERNEL = aide.kernels.UnderdampedLangevin([0.3, 0.5], 0.7, COVARIANCE)


def log_density(x):
    return jnp.logaddexp(Normal(-1.0, 0.5).log_prob(x[0]), Normal(1.0, 0.9).log_prob(x[1]))


DENSITY = PhaseDensity(log_density)
STATE = Phase(jnp.array([0.3, -1.2]), jnp.array([0.8, 0.1]))


@pytest.mark.usefixtures("x64")
def test_a_step_is_undone_from_its_record():
    state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), float), STATE)
    y, noise, _ = KERNEL.record(jax.random.key(1), DENSITY, state)
    back = KERNEL.retrace(DENSITY, y, DENSITY(y), noise)
    for there, here in zip(jax.tree.leaves(back.value), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(there[0], here, atol=1e-12)
    np.testing.assert_allclose(back.log_own[0], log_standard_normal(noise), atol=1e-12)
    # The rotation keeps lengths: N(p) N(noise drawn) = N(p') N(noise left over).
    middle = KERNEL._leap(-1.0, DENSITY, y.position, y.momentum).momentum
    lengths = log_standard_normal(state.momentum) + back.log_forward[0]
    np.testing.assert_allclose(
        lengths, log_standard_normal(middle) + log_standard_normal(noise), atol=1e-12
    )


@pytest.mark.usefixtures("x64")
def test_the_map_has_jacobian_one():
    """From the state and the noise drawn, which `retrace` tells, to the next state and record."""
    state, noise = Phase(jnp.array([0.3, -1.2]), jnp.array([0.8, 0.1])), jnp.array([0.4, -0.9])
    flat, unravel = ravel_pytree((state, noise))

    def undo(flat):
        y, v = unravel(flat)
        x = jax.tree.map(lambda leaf: leaf[0], KERNEL.retrace(DENSITY, y, jnp.zeros(()), v).value)
        middle = KERNEL._leap(-1.0, DENSITY, y.position, y.momentum).momentum
        drawn = jnp.sqrt(1.0 - 0.7**2) * middle - 0.7 * v
        return ravel_pytree((x, drawn))[0]

    determinant = np.linalg.det(np.asarray(jax.jacfwd(undo)(flat)))
    np.testing.assert_allclose(abs(determinant), 1.0, atol=1e-10)


@pytest.mark.parametrize("persistence", [1.0, -0.1])
def test_persistence_is_a_share(persistence):
    with pytest.raises(ValueError, match="persistence must be at least 0 and below 1"):
        aide.kernels.UnderdampedLangevin(0.1, persistence)
