r"""Kernels leave their density invariant, and their reversals are right.

With exact draws $x$ of the density and $y$ one step from $x$: $E[g(y)] = E[g(x)]$, and
$E[f(x)\,g(y)]$ under the kernel equals $E[g(x)\,f(y)]$ under its reversal, for functions $f$, $g$
and densities without symmetry.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, z_score
from support.toys import log_table
from support.wrong import WrongCycle, WrongDrift, WrongGibbsSites, WrongMetric

import aide
from aide.engine.programs.programs import QUICK_OPTIONS
from aide.problems.distributions import Normal

NUM = 100_000


def sample_line(key):
    """0.3 N(-1, 0.5^2) + 0.7 N(1, 0.9^2)."""
    key_side, key_x = jax.random.split(key)
    right = jax.random.bernoulli(key_side, 0.7)
    mean, std = jnp.where(right, 1.0, -1.0), jnp.where(right, 0.9, 0.5)
    return mean + std * jax.random.normal(key_x)


def log_line(x):
    left, right = Normal(-1.0, 0.5).log_prob(x), Normal(1.0, 0.9).log_prob(x)
    return jnp.logaddexp(jnp.log(0.3) + left, jnp.log(0.7) + right) + 1.3


def sample_plane(key):
    """The mixture, and a normal whose mean bends with it."""
    key_a, key_b = jax.random.split(key)
    a = sample_line(key_a)
    return {"a": a, "b": 0.6 * a + 0.3 * a**2 + 0.7 * jax.random.normal(key_b)}


def log_plane(x):
    a = x["a"]
    return log_line(a) + Normal(0.6 * a + 0.3 * a**2, 0.7).log_prob(x["b"])


def sample_table(key):
    states = jnp.array([[i, j] for i in range(3) for j in range(3)])
    return states[jax.random.categorical(key, jax.vmap(log_table)(states))]


def redraw_b(key, log_density, x):
    """A Gibbs update of b; reversible."""
    mean = 0.6 * x["a"] + 0.3 * x["a"] ** 2
    return {"a": x["a"], "b": mean + 0.7 * jax.random.normal(key)}


def walk_a(key, log_density, x):
    """A random walk of a alone; reversible."""
    a = aide.kernels.RandomWalk(1.5).step(key, lambda a: log_density({"a": a, "b": x["b"]}), x["a"])
    return {"a": a, "b": x["b"]}


def two_updates(order):
    def step(key, log_density, x):
        for update, subkey in zip(order, jax.random.split(key), strict=True):
            x = update(subkey, log_density, x)
        return x

    return step


class Broad:
    def sample(self, key):
        keys = jax.random.split(key)
        return {"a": 2 * jax.random.normal(keys[0]), "b": 1 + 2 * jax.random.normal(keys[1])}

    def log_density(self, x):
        return Normal(0.0, 2.0).log_prob(x["a"]) + Normal(1.0, 2.0).log_prob(x["b"])


LINE, PLANE, TABLE = (sample_line, log_line), (sample_plane, log_plane), (sample_table, log_table)
PARTS = (
    aide.kernels.Kernel(walk_a, reversible=True),
    aide.kernels.Kernel(redraw_b, reversible=True),
)
METRIC = np.array([[1.4, 0.9], [0.9, 1.6]])
FORWARD, BACKWARD = two_updates((walk_a, redraw_b)), two_updates((redraw_b, walk_a))
KERNELS = {
    "walk": (aide.kernels.RandomWalk(1.2), LINE),
    "walk-plane": (aide.kernels.RandomWalk([0.8, 1.3]), PLANE),
    "independence": (aide.kernels.Independence(Normal(0.3, 1.6)), LINE),
    "independence-plane": (aide.kernels.Independence(Broad()), PLANE),
    "mala": (aide.kernels.Mala(0.8), LINE),
    "mala-plane": (aide.kernels.Mala([0.6, 0.8]), PLANE),
    "hmc": (aide.kernels.Hmc(0.5, 3), LINE),
    "hmc-plane": (aide.kernels.Hmc(0.4, 3), PLANE),
    "hmc-dense": (aide.kernels.Hmc(0.5, 3, METRIC), PLANE),
    "mala-dense": (aide.kernels.Mala(0.7, METRIC), PLANE),
    "walk-dense": (aide.kernels.RandomWalk(1.2, METRIC), PLANE),
    "cycle": (aide.kernels.Cycle(*PARTS), PLANE),
    "cycle-shipped": (
        aide.kernels.Cycle(aide.kernels.RandomWalk(0.5), aide.kernels.Hmc(0.4, 2)),
        PLANE,
    ),
    "repeat": (aide.kernels.Repeat(aide.kernels.Cycle(*PARTS), 2), PLANE),
    "kernel": (aide.kernels.Kernel(FORWARD, backward=BACKWARD), PLANE),
    "gibbs": (aide.kernels.GibbsSites([0, 1], 3), TABLE),
    "gibbs-three": (aide.kernels.GibbsSites([1, 0, 1], 3), TABLE),
}
WRONG = {
    "cycle": (WrongCycle(aide.kernels.Cycle(*PARTS)), PLANE),
    "kernel": (aide.kernels.Kernel(FORWARD, reversible=True), PLANE),
    "gibbs": (WrongGibbsSites([0, 1], 3), TABLE),
}


def runner(kernel, problem, num):
    """Exact draws and where one step takes them, as arrays of shape (num, dimension)."""
    sample, log_density = problem

    def one(key):
        key_x, key_y = jax.random.split(key)
        x = sample(key_x)
        return x, kernel.step(key_y, log_density, x)

    compiled = jax.jit(jax.vmap(one), compiler_options=QUICK_OPTIONS)

    def run(seed):
        for tree in compiled(jax.random.split(jax.random.key(seed), num)):
            leaves = [np.reshape(leaf, (num, -1)) for leaf in jax.tree.leaves(tree)]
            yield np.concatenate(leaves, axis=1).astype(float)

    return run


def f(x):
    """Mostly the last coordinate."""
    return np.tanh(1.5 * x[:, -1] - 0.8 * x[:, 0] - 1.5)


def g(x):
    """Mostly the first coordinate."""
    return np.sin(1.3 * x[:, 0] + 0.2 * x[:, -1] - 0.6)


def kernel_z(kernel, problem, num=NUM):
    """How far the kernel is from leaving f and g invariant, and from what its reversal does."""
    forward, reversal = runner(kernel, problem, num), kernel.reversal()
    x, y = forward(0)
    back_x, back_y = (forward if reversal is kernel else runner(reversal, problem, num))(1)
    there, back = f(x) * g(y), g(back_x) * f(back_y)
    error = np.sqrt((there.var(ddof=1) + back.var(ddof=1)) / num)
    return [z_score(h(y) - h(x)) for h in (f, g)], (there.mean() - back.mean()) / error


AGAIN = {
    "walk-plane",
    "independence-plane",
    "mala-plane",
    "hmc-plane",
    "mala-dense",
    "walk-dense",
    "cycle-shipped",
    "gibbs-three",
    "kernel",
    "repeat",
}
"""Kernels that are tested on the line, or with other parts, already."""
NAMES = [pytest.param(n, marks=pytest.mark.full) if n in AGAIN else n for n in KERNELS]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.full
def test_invariance_and_reversal(name):
    invariance, reversal = kernel_z(*KERNELS[name])
    assert np.abs(invariance).max() < Z_MAX
    assert abs(reversal) < Z_MAX


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "name", ["cycle", *(pytest.param(n, marks=pytest.mark.full) for n in ("gibbs", "kernel"))]
)
def test_a_wrong_reversal_is_rejected(name):
    """The forward order backward is invariant all the same: invariance is not enough."""
    invariance, reversal = kernel_z(*WRONG[name])
    assert np.abs(invariance).max() < Z_MAX
    assert abs(reversal) > 2 * Z_MAX


@pytest.mark.usefixtures("x64")
def test_a_wrong_acceptance_is_rejected():
    invariance, reversal = kernel_z(WrongDrift(1.2), LINE)
    assert np.abs(invariance).max() > 2 * Z_MAX
    assert abs(reversal) > 2 * Z_MAX


@pytest.mark.usefixtures("x64")
@pytest.mark.full
def test_a_metric_for_half_of_the_way_is_rejected():
    invariance, _ = kernel_z(WrongMetric(0.5, 3, METRIC), PLANE, 4 * NUM)
    assert np.abs(invariance).max() > 2 * Z_MAX


@pytest.mark.full
@pytest.mark.parametrize("kernel", [aide.kernels.Hmc, WrongMetric])
def test_the_check_of_kernels_sees_a_wrong_metric(kernel):
    """A correlated Gaussian, which a leapfrog step with its metric takes for a round one."""
    precision = np.linalg.inv(METRIC)
    result = aide.check_kernel(
        jax.random.key(7),
        kernel(0.6, 3, METRIC),
        lambda x: -0.5 * x @ jnp.asarray(precision) @ x,
        Normal(np.zeros(2), 2.0),
    )
    assert result.passed == (kernel is aide.kernels.Hmc)
