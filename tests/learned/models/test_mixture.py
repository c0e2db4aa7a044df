r"""Joint models and records by quadrature, for every kernel in one dimension.

The conditional is normalised: $\sum_b\int J(y, v, b)\,dv = \hat q(y)$. Records lose no mass:
$\sum_b\int\int q_0(x_b)\,k(y, v, b \mid x_b)\,dv\,dy = 1$, and for the random walk the integral
over $v$ alone is the density after one step, computed from its textbook formula.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support import toys

import aide
from aide._core.numerics import FlatLayout
from aide.learned.models.joint import JointMixture
from aide.learned.records.transitions import FlatKernel
from aide.problems.distributions import Normal

pytestmark = pytest.mark.usefixtures("x64")
GRADIENTS = lambda i, x: jax.grad(toys.log_joint)(x) + jnp.where(i == 0, 0.9, -0.9)
KERNELS = {
    "walk": aide.kernels.RandomWalk(0.8),
    "independence": aide.kernels.Independence(Normal(0.5, 1.5)),
    "mala": aide.kernels.Mala(0.7),
    "hmc": aide.kernels.Hmc(0.4, 3),
    "ula": aide.kernels.Ula(0.7),
    "sgld": aide.kernels.Sgld(0.7, GRADIENTS, 2),
}
START = Normal(0.0, 1.2)
NOISE = np.linspace(-14.0, 14.0, 2801)
STATES = np.linspace(-11.0, 11.0, 221)


def model_of(kernel):
    branch = np.repeat(np.arange(kernel.num_branches), 2)
    rng = np.random.default_rng(3)
    roots = rng.normal(0.0, 0.3, (branch.size, 2, 2)) + np.eye(2)
    weights = np.append(0.4, np.full(branch.size, 0.6 / branch.size))
    moments = (weights, rng.normal(0.3, 0.5, (branch.size, 2)), roots @ roots.mT)
    return JointMixture.from_moments(*moments, branch, 1, 0.3)


def retraced(kernel, y):
    """States before, log forward and log own densities [B, V] at one y, over the noise grid."""
    flat = FlatKernel(kernel, toys.log_joint, FlatLayout(jnp.zeros(())))
    here = jnp.full(NOISE.size, flat.log_density(jnp.full(1, y)))
    states, _, forward, own = flat.retrace(
        jnp.full((1, NOISE.size), y), here, jnp.asarray(NOISE)[None]
    )
    return states[:, 0], here, forward, own


CORE = {"walk", "sgld"}
NAMES = [pytest.param(name, marks=() if name in CORE else pytest.mark.full) for name in KERNELS]


@pytest.mark.parametrize("name", NAMES)
def test_the_conditional_is_normalised(name):
    kernel = KERNELS[name]
    model = model_of(kernel)

    @jax.jit
    def total(y):
        _, here, forward, own = retraced(kernel, y)
        states = jnp.full((1, NOISE.size), y)
        scores, log_q = model.score(states, here)
        possible = forward != -jnp.inf
        mass = 0.0
        for b in range(kernel.num_branches):
            branch = jnp.full(NOISE.size, b)
            joint = model.log_joint(
                scores, states, jnp.asarray(NOISE)[None], branch, possible, own[b]
            )
            mass += jnp.trapezoid(jnp.exp(joint), NOISE)
        return mass / jnp.exp(log_q[0])

    for y in (-1.3, 0.2, 1.1):
        assert abs(total(y) - 1) < 1e-5  # the accept probability has kinks


def law_after(kernel):
    """Density of the state after one step from `START`, on the grid of states."""

    def after(y):
        states, _, forward, _ = retraced(kernel, y)
        density = jax.vmap(jax.vmap(START.log_prob))(states) + forward
        return jnp.sum(jnp.trapezoid(jnp.exp(density), NOISE, axis=1))

    return np.asarray(jax.jit(lambda ys: jax.lax.map(after, ys))(STATES))


@pytest.mark.parametrize("name", NAMES)
def test_records_lose_no_mass(name):
    law = law_after(KERNELS[name])
    assert abs(np.trapezoid(law, STATES) - 1) < 1e-4
    if name == "walk":
        np.testing.assert_allclose(law[90:130:5], walk_law(STATES[90:130:5]), rtol=0, atol=1e-5)


def walk_law(points):
    """Density of the random walk after one step, from the definition of Metropolis–Hastings."""
    grid = np.linspace(-12.0, 12.0, 6001)
    log_p = lambda x: np.log(toys.weight(x)) + stats.norm.logpdf(x, 0.0, 1.2)
    start = lambda x: stats.norm.pdf(x, 0.0, 1.2)
    law = []
    for y in points:
        hop = stats.norm.pdf(grid, y, 0.8)
        came = start(grid) * hop * np.exp(np.minimum(0.0, log_p(y) - log_p(grid)))
        left = hop * np.exp(np.minimum(0.0, log_p(grid) - log_p(y)))
        law.append(np.trapezoid(came, grid) + start(y) * (1 - np.trapezoid(left, grid)))
    return np.array(law)


class WrongWalk(aide.kernels.RandomWalk):
    """The density of its noise integrates to 1.1."""

    def log_noise(self, x, v):
        return super().log_noise(x, v) + jnp.log(1.1)


def test_a_wrong_record_loses_mass():
    assert abs(np.trapezoid(law_after(WrongWalk(0.8)), STATES) - 1) > 1e-2
