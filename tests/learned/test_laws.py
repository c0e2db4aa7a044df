r"""Laws 1, 2 and 5 of chains with learned meta-inference, at 1, 2 and 3 reverse particles.

Models are stated by hand, badly (`WIDE`): means and branches far from the truth, covariances wide
enough for every mean the laws look at to have a finite variance. Any model must obey the laws.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Z_MAX, laws, toys
from support.registry import LINE, Entry

import aide
from aide.learned.chain import LearnedChain
from aide.learned.mixture import JointMixture
from aide.problems.distributions import Normal

KERNELS = {
    "walk": aide.RandomWalk(0.8),
    "independence": aide.Independence(Normal(0.5, 1.5)),
    "mala": aide.mala(0.7),
    "hmc": aide.Hmc(0.4, 3),
    "ula": aide.Ula(0.7),
    "sgld": aide.Sgld(0.7, lambda i, x: jax.grad(toys.log_joint)(x) + 0.9 * (2 * i - 1), 2),
    "cycle": aide.Cycle(aide.RandomWalk(0.8), aide.Ula(0.5)),
}


def wide(kernel, seed):
    """Two Gaussians per branch, in the wrong places, and too much weight on the kernel."""
    rng = np.random.default_rng(seed)
    branch = np.repeat(np.arange(kernel.num_branches), 2)
    weights = np.append(0.3, rng.dirichlet(np.ones(branch.size)) * 0.7)
    means = rng.normal(0.3, 0.4, (branch.size, 2))
    roots = rng.normal(0.0, 0.3, (branch.size, 2, 2)) + 1.5 * np.eye(2)
    moments = (weights, means, roots @ roots.transpose(0, 2, 1))
    return JointMixture.from_moments(*moments, branch, 1, 0.4)


def chain(name, num_particles, num_steps=3):
    kernel = KERNELS[name]
    parts = kernel.parts if isinstance(kernel, aide.Cycle) else (kernel,)
    stack = lambda *leaves: np.stack(leaves)
    models = tuple(
        jax.tree.map(stack, wide(part, 2 * i), wide(part, 2 * i + 1))
        for i, part in enumerate(parts)
    )
    index = np.array([0, 1, 0])[:num_steps].astype(np.int32)
    return LearnedChain(toys.PRIOR, toys.log_joint, kernel, models, index, num_particles)


def scores(algorithm, seed=0, num_runs=20_000):
    entry = Entry(algorithm, *LINE, num_runs=num_runs)
    draws = laws.law_draws(entry, seed)
    log_ratio = laws.log_ratios(draws)
    assert laws.swap_information(log_ratio) > 200
    return {
        "1, mass": laws.mass_z(draws),
        "1, probe": laws.probe_z(draws),
        "2, binned": laws.swap_z(log_ratio),
        "2, exchange": laws.exchange_z(log_ratio),
        "5": laws.density_z(draws, entry.log_h),
    }


CORE = {("walk", 1), ("walk", 3), ("mala", 2)}
CASES = [
    pytest.param(name, num, marks=() if (name, num) in CORE else pytest.mark.full)
    for name in KERNELS
    for num in (1, 2, 3)
]


@pytest.mark.parametrize(("name", "num_particles"), CASES)
def test_laws(name, num_particles):
    broken = {k: z for k, z in scores(chain(name, num_particles)).items() if not abs(z) < Z_MAX}
    assert not broken


class WrongWalk(aide.RandomWalk):
    """Leaves out the normalising constant of its noise."""

    def log_noise(self, x, v):
        return jnp.zeros(())


def assert_rejected(wrong):
    """Law 1 and another one reject it: each error escapes some law."""
    found = {law for law, z in scores(wrong).items() if abs(z) > 2 * Z_MAX}
    assert "1, mass" in found
    assert found & {"2, binned", "2, exchange", "5"}


def test_a_wrong_reverse_density_is_rejected():
    """The density of the proposed noise lacks its constant; one particle has the most power."""
    right = chain("walk", 1)
    where = lambda algorithm: algorithm.models[0].log_scale_v
    assert_rejected(eqx.tree_at(where, right, np.zeros_like(where(right))))


def test_an_unnormalised_noise_density_is_rejected():
    where = lambda algorithm: algorithm.kernel
    assert_rejected(eqx.tree_at(where, chain("walk", 1), WrongWalk(0.8)))
