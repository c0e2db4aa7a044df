r"""NUTS: its law by enumeration on a finite stand-in, and the kernel on real numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.nuts import chances_from
from support.clockwork import (
    GAMMA,
    NOISE,
    NUM_NOISES,
    NUM_STATES,
    Clockwork,
    log_gamma,
    orbit_of,
)

import aide
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems.distributions import Normal

NUM_PAIRS = NUM_STATES * NUM_NOISES
DEPTH = 3
REACH = 2**DEPTH - 1
LIMIT = 3.0
"""Some trees of the stand-in have log weights further apart."""


def chances(criterion, limit=LIMIT, depth=DEPTH):
    """P(0 to b) of every pair by the recursion, [pair, b]."""
    table = np.zeros((NUM_PAIRS, 2 * REACH + 1))
    for pair in range(NUM_PAIRS):
        found, _ = chances_from(criterion, limit, depth, orbit_of(pair)[0])
        for b, chance in found.items():
            table[pair, b + REACH] += chance
    return table


def retraced(kernel):
    """What the kernel says of every pair (y, v)."""

    def undo(pair):
        y, v = jnp.divmod(pair, NUM_NOISES)
        return kernel.retrace(log_gamma, y.astype(jnp.int32), log_gamma(y), v.astype(float))

    with jax.enable_x64(True):
        run = jax.jit(jax.vmap(undo), compiler_options=QUICK_OPTIONS)
        return jax.tree.map(np.asarray, run(jnp.arange(NUM_PAIRS)))


@pytest.fixture(scope="module")
def stand_in():
    return retraced(Clockwork(DEPTH, "stan", LIMIT))


def assert_is_the_recursion(found, criterion, limit=LIMIT):
    """Chances of steps from and back to every pair, and where they lead."""
    expected = chances(criterion, limit)
    for pair in range(NUM_PAIRS):
        x, v = divmod(pair, NUM_NOISES)
        own = np.exp(found.log_own[pair])
        np.testing.assert_allclose(own, NOISE[x, v] * expected[pair], rtol=0, atol=1e-14)
        for b in np.flatnonzero(own) - REACH:
            origin = orbit_of(pair)[1](b)
            assert found.value[pair, b + REACH] == origin // NUM_NOISES
            chance = NOISE.ravel()[origin] * expected[origin, REACH - b]
            assert abs(np.exp(found.log_forward[pair, b + REACH]) - chance) < 1e-14


def test_every_chance_is_that_of_the_recursion(stand_in):
    assert_is_the_recursion(stand_in, "stan")


@pytest.mark.full
@pytest.mark.parametrize(("criterion", "limit"), [("numpyro", LIMIT), ("stan", 1000.0)])
def test_so_it_is_with_other_settings(criterion, limit):
    found = retraced(Clockwork(DEPTH, criterion, limit))
    assert_is_the_recursion(found, criterion, limit)


def test_the_recursion_tells_settings_apart():
    """Control: criteria, limits and depths are all seen on this stand-in."""
    right = chances("stan")
    for wrong in (chances("numpyro"), chances("stan", 1000.0), chances("stan", LIMIT, DEPTH - 1)):
        assert np.abs(right - wrong).max() > 0.05


def transition_matrix(found):
    """K(x, y): from every x with every noise to every point."""
    matrix = np.zeros((NUM_STATES, NUM_STATES))
    for pair in range(NUM_PAIRS):
        np.add.at(matrix[pair // NUM_NOISES], found.value[pair], np.exp(found.log_own[pair]))
    return matrix


def test_the_density_is_invariant_and_steps_are_reversible(stand_in):
    matrix, p = transition_matrix(stand_in), GAMMA / GAMMA.sum()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(p @ matrix, p, rtol=0, atol=1e-12)
    flow = p[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
    # Control: one point in ten forgets its weight.
    wrong = stand_in._replace(log_own=np.where(stand_in.value == 3, -1.0, 0.0) + stand_in.log_own)
    flow = p[:, None] * transition_matrix(wrong)
    assert np.abs(flow - flow.T).max() > 0.01


COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])
KERNEL = aide.kernels.Nuts(0.5, 3, COVARIANCE)


def log_density(x):
    """Bent, with an edge: 0 on one side of it, and not a number far beyond."""
    value = -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.3 * x[0] ** 2) ** 2
    return jnp.where(x[0] > 4.0, jnp.nan, jnp.where(x[0] > 3.0, -jnp.inf, value))


@pytest.fixture(scope="module")
def stepping():
    """Record and retrace in one program: from (key, x) and from (y, v)."""

    def run(key, x, v):
        record = KERNEL.record(key, log_density, x)
        back = KERNEL.retrace(log_density, record.value, log_density(record.value), record.noise)
        return record, back, KERNEL.orbit(log_density, x, v)[:5]

    with jax.enable_x64(True):
        return jax.jit(run, compiler_options=QUICK_OPTIONS)


def test_a_step_can_be_undone(stepping, x64):
    x, moved = jnp.array([0.4, -0.3]), 0
    for seed in range(20):
        record, back, _ = stepping(jax.random.key(seed), x, x)
        gaps = np.abs(np.asarray(back.value) - np.asarray(x)).max(axis=1)
        origin = np.argmin(gaps)
        assert gaps[origin] < 1e-12
        assert back.log_forward[origin] > -20.0
        # All chances of going somewhere from (y, v) add up to the density of v.
        total = np.logaddexp.reduce(np.asarray(back.log_own))
        density = -0.5 * np.sum(np.asarray(record.noise) ** 2) - np.log(2 * np.pi)
        assert abs(total - density) < 1e-12
        moved += bool(jnp.any(record.value != x))
    assert moved > 10


def test_edges_end_trees_and_nan_is_seen(stepping, x64):
    """A density of 0 is never entered nor left; one that is NaN is entered and never left."""
    key = jax.random.key(0)
    _, _, orbit = stepping(key, jnp.array([2.9, 1.0]), jnp.array([1.0, 0.0]))
    chance = np.exp(np.asarray(orbit[3]))
    assert abs(chance.sum() - 1.0) < 1e-12
    assert np.all(np.asarray(orbit[0])[chance > 0, 0] < 3.0)
    outside = jnp.array([3.5, 0.0])
    record, back, _ = stepping(key, outside, outside)
    np.testing.assert_array_equal(record.value, outside)
    assert np.isfinite(back.log_forward).sum() == 1
    _, _, orbit = stepping(key, jnp.array([2.9, 1.0]), jnp.array([6.0, 0.0]))
    assert np.asarray(orbit[4]).any()
    beyond = jnp.array([4.5, 0.0])
    record, back, _ = stepping(key, beyond, beyond)
    np.testing.assert_array_equal(record.value, beyond)
    assert np.isnan(back.log_forward).all()


class Unweighed(aide.kernels.Nuts):
    """Wrong: all points of the trajectory are as good as any other."""

    def orbit(self, log_density, x, v):
        found = super().orbit(log_density, x, v)
        return found._replace(log_chance=jnp.where(found.log_chance > -jnp.inf, 0.0, -jnp.inf))


@pytest.mark.full
def test_check_kernel():
    """The kernels pass, also where trees diverge or end at their limit; a wrong one does not."""
    bent = lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.5 * x[0] ** 2) ** 2 / 0.3
    start = Normal(np.array([0.0, 0.5]), np.array([1.3, 1.6]))
    check = lambda kernel: aide.check_kernel(jax.random.key(3), kernel, bent, start)
    for kernel in (
        aide.kernels.Nuts(0.6, 2),
        aide.kernels.Nuts(0.6, 4),
        aide.kernels.Nuts(0.6, 3, criterion="numpyro"),
        aide.kernels.Nuts(0.6, 3, divergence=0.5),
        aide.kernels.Nuts(0.6, 3, COVARIANCE),
    ):
        assert check(kernel).p_value > 1e-4
    assert check(Unweighed(0.6, 3)).p_value < 1e-8


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: aide.kernels.Nuts(-0.1, 3), "step_size must be positive"),
        (lambda: aide.kernels.Nuts(0.1, 0), "max_depth must be an integer of at least 1, got 0"),
        (lambda: aide.kernels.Nuts(0.1, 40), "max_depth must be at most 12, got 40"),
        (lambda: aide.kernels.Nuts(0.1, 3, criterion="pymc"), "criterion must be one of stan"),
        (lambda: aide.kernels.Nuts(0.1, 3, divergence=0.0), "divergence must be positive"),
    ],
)
def test_bad_settings_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_trajectories_mirror_each_other():
    kernel, (y, v) = aide.kernels.Nuts(0.6, 2), np.random.default_rng(0).normal(size=(2, 3))
    log_density = lambda x: -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4)
    with jax.enable_x64(True):
        undo = jax.jit(lambda v: kernel.retrace(log_density, y, log_density(y), v))
        ahead, back = (jax.tree.map(np.asarray, undo(side * v)) for side in (1.0, -1.0))
    for one, other in zip(ahead, back, strict=True):
        assert one == pytest.approx(other[::-1], rel=1e-12)
