r"""NUTS of this library and that of BlackJAX: the same density, step size, metric and limits."""

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX

import aide

METRIC = np.array([[1.0, 0.5, 0.0], [0.5, 1.5, -0.3], [0.0, -0.3, 0.6]])
PARAMETERS = {"step_size": 0.35, "inverse_mass_matrix": METRIC}
DEPTH, NUM_STEPS = 5, 40_000
STARTS = ([0.2, -0.1, 0.4], [2.5, 1.0, -1.5])


def log_density(x):
    """Bent and skewed."""
    bend = x[1] - 0.4 * x[0] ** 2
    return -0.5 * x[0] ** 2 - 0.8 * bend**2 - jnp.logaddexp(1.5 * x[2], -0.7 * x[2])


def test_a_finished_warm_up_is_a_kernel():
    kernel = aide.blackjax.nuts(PARAMETERS, max_depth=DEPTH)
    assert (kernel.step_size, kernel.max_depth, kernel.criterion) == (0.35, DEPTH, "numpyro")
    np.testing.assert_allclose(kernel.metric.factor @ kernel.metric.factor.T, METRIC)


def tried_doublings(kernel, orbit):
    """The mean number of doublings that a step tries, given its momentum."""
    trees, place = orbit.trees, jnp.arange(orbit.log_chance.size) - orbit.log_chance.size // 2
    total = 0.0
    for depth in range(kernel.max_depth + 1):
        inside = (place <= 0) & (place > -(2**depth)) & trees.admissible[depth]
        ended = inside & (trees.turning[depth] | (depth == kernel.max_depth))
        total += depth * jnp.sum(ended) * 0.5**depth
        if depth < kernel.max_depth:
            larger = trees.admissible[depth + 1]
            failing = 0.5 * (~larger) + 0.5 * (~jnp.roll(larger, 2**depth))
            failed = inside & ~trees.turning[depth]
            total += (depth + 1) * jnp.sum(jnp.where(failed, failing, 0.0)) * 0.5**depth
    return total


def ours(kernel, seed, x):
    def step(key):
        key_noise, key_step = jax.random.split(key)
        orbit = kernel.orbit(log_density, x, kernel.noise(key_noise, x))
        return kernel.step(key_step, log_density, x), tried_doublings(kernel, orbit)

    return jax.jit(jax.vmap(step))(jax.random.split(jax.random.key(seed), NUM_STEPS))


def theirs(seed, x):
    algorithm: Any = blackjax.nuts(log_density, **PARAMETERS, max_num_doublings=DEPTH)

    def step(key):
        state, info = algorithm.step(key, algorithm.init(x))
        return state.position, info.num_trajectory_expansions

    return jax.jit(jax.vmap(step))(jax.random.split(jax.random.key(seed), NUM_STEPS))


def statistics(x, found):
    y, doublings = (np.asarray(part, float) for part in found)
    jump = np.sum((y - np.asarray(x)) ** 2, axis=1)
    columns = [*y.T, *(y**2).T, jump, np.sqrt(jump), jump < 0.1, y[:, 0] * y[:, 1], doublings]
    return np.stack(columns, axis=1)


def largest_z(one, other):
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    return np.abs(one.mean(axis=0) - other.mean(axis=0)) / error


@pytest.mark.full
@pytest.mark.parametrize("start", STARTS)
def test_a_step_has_the_law_of_blackjax(start, x64):
    x = jnp.array(start)
    expected = statistics(x, theirs(1, x))
    assert np.ptp(expected[:, -1]) >= 2
    kernel = aide.blackjax.nuts(PARAMETERS, max_depth=DEPTH)
    assert largest_z(statistics(x, ours(kernel, 2, x)), expected).max() < Z_MAX
    # Controls: longer steps, and trees that end earlier. (Stan's criterion is nearly the same law
    # here: |z| was 4 with 60,000 steps, which `tests/kernels/test_nuts.py` tells apart exactly.)
    wrong = aide.blackjax.nuts(PARAMETERS | {"step_size": 0.42}, max_depth=DEPTH)
    if start is STARTS[0]:
        wrong = aide.blackjax.nuts(PARAMETERS, max_depth=3)
    assert largest_z(statistics(x, ours(wrong, 2, x)), expected).max() > 2 * Z_MAX
