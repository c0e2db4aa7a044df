r"""Metropolis kernels are involutions: $\varphi(\varphi(x, v)) = (x, v)$ and $|\det J| = 1$.

Also: a kernel without a reversal is refused where it is stated, not in a run.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support.wrong import WrongMetric

import aide
from aide.checking.kernel.adapt import claimed_reversal
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems.distributions import Normal


def log_density(x):
    a, b = x["a"], x["b"]
    bend = Normal(0.5 * a**2, jnp.array([0.7, 1.1])).log_prob(b)
    return jnp.logaddexp(Normal(-1.0, 0.5).log_prob(a), Normal(1.0, 0.9).log_prob(a)) + bend


COVARIANCE = np.array([[1.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 0.6]])
KERNELS = {
    "walk": aide.kernels.RandomWalk([0.5, 1.2, 0.8]),
    "mala": aide.kernels.Mala(0.6),
    "mala-scaled": aide.kernels.Mala([0.3, 0.5, 0.7]),
    "hmc": aide.kernels.Hmc(0.3, 5),
    "independence": aide.kernels.Independence(Normal(np.zeros(3), 2.0)),
    "walk-dense": aide.kernels.RandomWalk(0.7, COVARIANCE),
    "mala-dense": aide.kernels.Mala(0.4, COVARIANCE),
    "hmc-diagonal": aide.kernels.Hmc(0.2, 4, [0.5, 2.0, 1.3]),
    "hmc-dense": aide.kernels.Hmc(0.2, 4, COVARIANCE),
    "hmc-counted": aide.kernels.Hmc(0.3, jnp.asarray(5)),
}
POINTS = [{"a": 0.3, "b": [-0.4, 1.2]}, {"a": -1.7, "b": [2.0, 0.1]}]
NOISE = {"a": -0.6, "b": [0.8, 0.2]}


def involution(kernel, point):
    """The map on flat vectors (x, v), and a vector to start from."""
    x, v = (jax.tree.map(jnp.float64, tree, is_leaf=_is_list) for tree in (point, NOISE))
    flat, unravel = ravel_pytree((x, v))
    phi = lambda z: ravel_pytree(kernel.involution(log_density, *unravel(z)))[0]
    return jax.jit(phi, compiler_options=QUICK_OPTIONS), flat


def _is_list(tree):
    return isinstance(tree, list)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_involution_with_unit_jacobian(name):
    phi, _ = involution(KERNELS[name], POINTS[0])
    for point in POINTS:
        _, z = involution(KERNELS[name], point)
        assert float(jnp.max(jnp.abs(phi(z) - z))) > 0.1
        np.testing.assert_allclose(phi(phi(z)), z, rtol=0, atol=1e-12)
        determinant = np.linalg.det(jax.jacfwd(phi)(z))
        np.testing.assert_allclose(abs(determinant), 1.0, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_checks_see_a_map_that_is_none():
    """Leapfrog without the flip is no involution; a stretched walk has no unit Jacobian."""

    class Unflipped(aide.kernels.Hmc):
        def involution(self, log_density, x, v):
            y, w = super().involution(log_density, x, v)
            return y, jax.tree.map(jnp.negative, w)

    class Stretched(aide.kernels.RandomWalk):
        def involution(self, log_density, x, v):
            y, w = super().involution(log_density, x, v)
            return jax.tree.map(lambda a: 1.1 * a, y), w

    phi, z = involution(Unflipped(0.3, 5), POINTS[0])
    assert float(jnp.max(jnp.abs(phi(phi(z)) - z))) > 0.1
    phi, z = involution(Stretched(0.5), POINTS[0])
    assert abs(float(jnp.linalg.det(jax.jacfwd(phi)(z)))) > 1.1


class HalfMetric(aide.kernels.Metric):
    """Wrong: the metric stretches positions and leaves gradients as they are."""

    def pull(self, gradient):
        return gradient


@pytest.mark.usefixtures("x64")
def test_a_metric_used_by_halves_is_rejected():
    """One is no involution; the other is, and does not keep the energy: few are accepted."""
    phi, z = involution(WrongMetric(0.3, 2, COVARIANCE), POINTS[0])
    assert float(jnp.max(jnp.abs(phi(phi(z)) - z))) > 0.01
    right, wrong = (
        aide.kernels.Hmc(0.3, 4, metric)
        for metric in (COVARIANCE, HalfMetric(np.linalg.cholesky(COVARIANCE)))
    )
    energy = lambda z: log_density(z[0]) - 0.5 * sum(jnp.sum(v**2) for v in z[1].values())
    losses = []
    for kernel in (right, wrong):
        phi, z = involution(kernel, POINTS[0])
        unravel = ravel_pytree(({"a": 0.0, "b": jnp.zeros(2)}, {"a": 0.0, "b": jnp.zeros(2)}))[1]
        losses.append(abs(float(energy(unravel(phi(z))) - energy(unravel(z)))))
    assert losses[0] < 0.2 < 0.5 < losses[1]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("metric", [np.diag([0.5, 2.0, 1.3]), [0.5, 2.0, 1.3]])
def test_a_diagonal_metric_is_a_step_size_per_coordinate(metric):
    phi, z = involution(aide.kernels.Hmc(0.2, 4, metric), POINTS[0])
    plain, _ = involution(aide.kernels.Hmc(0.2 * np.sqrt([0.5, 2.0, 1.3]), 4), POINTS[0])
    np.testing.assert_allclose(phi(z), plain(z), rtol=0, atol=1e-13)


@pytest.mark.usefixtures("x64")
def test_mala_is_the_langevin_proposal():
    x, v = jnp.float64(0.4), jnp.float64(-0.9)
    y, _ = aide.kernels.Mala(0.5).involution(lambda x: -(x**4), x, v)
    assert float(y) == pytest.approx(0.4 + 0.5**2 / 2 * (-4 * 0.4**3) - 0.5 * 0.9, abs=1e-14)


def test_reversals_of_reversals():
    sites = aide.kernels.GibbsSites([2, 0, 1], 2)
    reverse = sites.reversal()
    assert isinstance(reverse, aide.kernels.GibbsSites)
    assert reverse.sites.tolist() == [1, 0, 2]
    walk = aide.kernels.RandomWalk(0.5)
    cycle = aide.kernels.Cycle(walk, sites).reversal()
    assert isinstance(cycle, aide.kernels.Cycle)
    assert [type(part).__name__ for part in cycle.parts] == ["GibbsSites", "RandomWalk"]
    kernel = aide.kernels.Kernel(lambda key, density, x: x, backward=lambda key, density, x: -x)
    assert kernel.reversal().reversal() == kernel


def step(key, density, x):
    return x


class OnlyStep:
    step = staticmethod(step)


@pytest.mark.parametrize(
    "build",
    [
        lambda kernel: aide.smc.Rejuvenate(kernel, log_density),
        lambda kernel: aide.mcmc(
            Normal(0.0, 1.0), log_density, kernel=kernel, num_steps=2
        ).canonical(),
        lambda kernel: aide.ais(Normal(0.0, 1.0), log_density, kernel=kernel, num_temperatures=2),
        lambda kernel: aide.kernels.Cycle(kernel).reversal(),
        lambda kernel: aide.kernels.Repeat(kernel, 2).reversal(),
    ],
)
@pytest.mark.parametrize("kernel", [OnlyStep(), step])
def test_a_kernel_without_reversal_is_refused(build, kernel):
    with pytest.raises(
        ValueError, match=r"has no reversal.*aide\.kernels\.Kernel\(step, reversible=True\)"
    ):
        build(kernel)


ULA = aide.kernels.Ula(0.3)
UNADJUSTED = {
    "alone": ULA,
    "in a cycle": aide.kernels.Cycle(aide.kernels.RandomWalk(0.5), ULA),
    "repeated": aide.kernels.Repeat(ULA, 2),
    "on an entry": aide.kernels.OnEntry(0, ULA),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n == "repeated" else n for n in UNADJUSTED]
)
def test_a_transition_without_reversal_is_one_all_the_same(name):
    """It makes steps; whoever needs its reversal is told what to do, and a check claims none."""
    kernel: Any = UNADJUSTED[name]
    assert not hasattr(ULA, "reversal")
    assert claimed_reversal(kernel, kernel, None) is None
    for build in (
        lambda: aide.smc.Rejuvenate(kernel, log_density),
        lambda: aide.ais(Normal(0.0, 1.0), log_density, kernel=kernel, num_temperatures=2),
    ):
        with pytest.raises(ValueError, match=r"Ula has no reversal.*Learn one: aide\.refine\(key"):
            build()
    x = (jnp.zeros(2),) if name == "on an entry" else jnp.zeros(2)
    log_normal = lambda x: -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))
    after = kernel.step(jax.random.key(1), log_normal, x)
    assert jax.tree.structure(after) == jax.tree.structure(x)
    assert jnp.all(jax.tree.leaves(after)[0] != 0.0)


def test_kernel_must_say_how_it_reverses():
    for build in (lambda: aide.kernels.Kernel(step), lambda: aide.kernels.Kernel(step, True, step)):
        with pytest.raises(ValueError, match="reversible=True if it satisfies detailed balance"):
            build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: aide.kernels.RandomWalk(-1.0), "scale must be positive"),
        (lambda: aide.kernels.Hmc(0.0, 3), "step_size must be positive"),
        (lambda: aide.kernels.Hmc(0.1, 0), "num_leapfrog must be an integer of at least 1, got 0"),
        (
            lambda: aide.kernels.GibbsSites([0, 1], 1),
            "num_values must be an integer of at least 2, got 1",
        ),
        (lambda: aide.kernels.GibbsSites(3, 2), "sites must be a list of flat indices"),
        (lambda: aide.kernels.Cycle(), "at least one kernel"),
        (lambda: aide.kernels.Hmc(0.1, 3, [1.0, -1.0]), "metric must be positive"),
        (lambda: aide.kernels.Hmc(0.1, 3, [[1.0, 2.0], [2.0, 1.0]]), "with the eigenvalue -1"),
        (lambda: aide.kernels.Mala(0.1, [[1.0, 0.5], [0.0, 1.0]]), "metric must be symmetric"),
        (lambda: aide.kernels.Mala(0.1, np.ones((2, 3))), r"variances or a covariance.*\(2, 3\)"),
        (
            lambda: aide.kernels.Repeat(aide.kernels.RandomWalk(1.0), -1),
            "num_times must be an integer",
        ),
    ],
)
def test_bad_settings_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_real_valued_kernels_refuse_integers():
    with pytest.raises(TypeError, match="Use GibbsSites"):
        aide.kernels.RandomWalk(1.0).step(jax.random.key(0), lambda x: 0.0, jnp.arange(3))
