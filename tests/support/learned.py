"""Learned meta-inference with models made up by hand, badly: any model must obey the laws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from reference.annealing import GAMMA, PRIOR, STATES, gibbs_sweep, metropolis

import aide
from aide.kernels.retrace import parts_of
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.models.joint import JointMixture, JointTable
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.models.tilted import TiltedKernel
from aide.learned.refined import RefinedChain, RefinedLangevin
from aide.learned.refined_smc import RefinedSmc
from aide.problems.distributions import Normal
from support import toys

CHAIN_KERNELS = {
    "walk": aide.kernels.RandomWalk(0.8),
    "independence": aide.kernels.Independence(Normal(0.5, 1.5)),
    "mala": aide.kernels.Mala(0.7),
    "hmc": aide.kernels.Hmc(0.4, 3),
    "nuts": aide.kernels.Nuts(0.6, 2),
    "ula": aide.kernels.Ula(0.7),
    "sgld": aide.kernels.Sgld(0.7, lambda i, x: jax.grad(toys.log_joint)(x) + 0.9 * (2 * i - 1), 2),
    "cycle": aide.kernels.Cycle(aide.kernels.RandomWalk(0.8), aide.kernels.Ula(0.5)),
}


def moments_of(rng, num, scale):
    r"""Means and covariances of $(y, v)$, badly placed.

    Given $y$, the noise has 0.9 to 1.25 times its true `scale`: between $\sqrt{1/2}$, below which
    $\xi$ has no variance under `regenerate`, and $\sqrt 2$, above which $1/\xi$ has none under
    `simulate`.
    """
    roots = np.zeros((num, 2, 2))
    roots[:, 0, 0] = rng.uniform(1.2, 1.8, num)
    roots[:, 1, 0] = rng.normal(0.0, 0.4, num)
    roots[:, 1, 1] = rng.uniform(0.9, 1.25, num) * scale
    return rng.normal(0.3, 0.4, (num, 2)), roots @ roots.mT


def scale_of(kernel):
    """Standard deviation of a kernel's noise."""
    return 1.5 if isinstance(kernel, aide.kernels.Independence) else 1.0


def wide_model(kernel, seed):
    """Two Gaussians per branch, in the wrong places, and too much weight on the kernel."""
    rng = np.random.default_rng(seed)
    branch = np.repeat(np.arange(kernel.num_branches), 2)
    weights = np.append(0.3, rng.dirichlet(np.ones(branch.size)) * 0.7)
    moments = moments_of(rng, branch.size, scale_of(kernel))
    return JointMixture.from_moments(weights, *moments, branch, 1, 0.4)


def learned_chain(name, num_reverse, num_steps=3):
    kernel = CHAIN_KERNELS[name]
    parts = kernel.parts if isinstance(kernel, aide.kernels.Cycle) else (kernel,)
    models = tuple(
        stack(wide_model(part, 2 * i), wide_model(part, 2 * i + 1)) for i, part in enumerate(parts)
    )
    index = np.array([0, 1, 0])[:num_steps].astype(np.int32)
    chain = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=kernel, num_steps=num_steps)
    return RefinedChain(chain, made_up_fit(models, index), num_reverse)


def made_up_fit(models, index):
    """A fit of models made up by hand, for a chain."""
    blank = np.zeros(2)
    return ReverseFit(models, index, blank, blank, blank)


LOW, HIGH = np.zeros(2), np.full(2, 2.0)


def log_nine(x):
    return jnp.log(jnp.asarray(GAMMA)[3 * x[0] + x[1]])


def start_on_nine():
    choose = lambda key: jax.random.choice(key, 9, p=jnp.asarray(PRIOR))
    log_start = lambda x: jnp.log(jnp.asarray(PRIOR)[3 * x[0] + x[1]])
    return aide.Tractable(lambda key: jnp.asarray(STATES, jnp.int32)[choose(key)], log_start)


class Hop(aide.kernels.AbstractMetropolis):
    """Move the first site up or down, around the clock; up with chance 0.7."""

    def noise(self, key, x):
        return jnp.where(jax.random.bernoulli(key, 0.7), 1, 2).astype(jnp.int32)

    def log_noise(self, x, v):
        return jnp.where(v == 1, jnp.log(0.7), jnp.log(0.3))

    def involution(self, log_density, x, v):
        return x.at[0].set((x[0] + v) % 3), (3 - v).astype(v.dtype)


def hop_matrix():
    target = lambda step: 3 * ((STATES[:, 0] + step) % 3) + STATES[:, 1]
    proposal = np.zeros((9, 9))
    for step, chance in ((1, 0.7), (2, 0.3)):
        proposal[np.arange(9), target(step)] += chance
    return metropolis(GAMMA, proposal)


TABLE_CHAINS = {
    "sweep": (aide.kernels.GibbsSites([0, 1, 0], 3), gibbs_sweep(GAMMA, (0, 1, 0))),
    "hop": (aide.kernels.FiniteNoise(Hop(), np.array([1, 2], np.int32)), hop_matrix()),
}


def made_up_table(rng, num_branches):
    """Wrong everywhere; one entry is 0, but the kernel's own guess covers it."""
    table = rng.dirichlet(np.full(9 * num_branches, 0.5)).reshape(9, num_branches)
    table[4, 1] = 0.0
    return JointTable.from_table(np.array([0.2, 0.3, 0.5]), table, LOW, HIGH, 0.4)


class WrongTable(JointTable):
    """Claims another density for one branch than it proposes with."""

    def log_joint(self, scores, y, noise, branch, possible, log_own):
        """The mistake."""
        honest = super().log_joint(scores, y, noise, branch, possible, log_own)
        return honest + jnp.where(branch == 1, 0.5, 0.0)


def with_wrong_table(chain):
    """The same chain, all tables wrong."""
    fields = [field.name for field in dataclasses.fields(JointTable)]
    wrong = lambda model: WrongTable(*(getattr(model, name) for name in fields))
    models = tuple(wrong(model) for model in chain.fit.models)
    return dataclasses.replace(chain, fit=dataclasses.replace(chain.fit, models=models))


def table_chain(name, num_reverse, num_steps=2):
    kernel, _ = TABLE_CHAINS[name]
    rng = np.random.default_rng(3)
    branches = [3, 3, 3] if name == "sweep" else [4]
    models = tuple(stack(made_up_table(rng, b), made_up_table(rng, b)) for b in branches)
    index = np.arange(num_steps, dtype=np.int32)
    chain = aide.mcmc(start_on_nine(), log_nine, kernel=kernel, num_steps=num_steps)
    return RefinedChain(chain, made_up_fit(models, index), num_reverse)


TEMPERATURES = np.array([0.2, 0.5, 1.0])
ANNEALED_KERNELS = {
    "walk": aide.kernels.RandomWalk(0.8),
    "mala": aide.kernels.Mala(0.7),
    "cycle": aide.kernels.Cycle(
        aide.kernels.RandomWalk(0.8), aide.kernels.Independence(Normal(0.5, 1.5))
    ),
}


def tempered(kernel, num_particles, resampler=None):
    parts = {"kernel": ANNEALED_KERNELS[kernel], "temperatures": TEMPERATURES}
    return aide.tempered_smc(
        toys.PRIOR, toys.log_joint, num_particles=num_particles, resampler=resampler, **parts
    )


def stack(*trees):
    """Models of neighbouring times."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def wide_lagging(kernel, seed, share):
    """Two Gaussians per branch and two lagging ones, badly placed; `share` is the kernel's."""
    rng = np.random.default_rng(seed)
    weights = np.append(share, rng.dirichlet(np.ones(6)) * (1 - share))
    moments = moments_of(rng, 4, scale_of(kernel))
    lagging = (rng.normal(0.3, 0.4, (2, 1)), np.array([[[1.5]], [[2.5]]]))
    with np.errstate(divide="ignore"):
        return JointMixture.from_moments(weights, *moments, [0, 0, 1, 1], 1, 0.4, lagging)


def made_up_means(num):
    knots = np.array([-1.0, -0.2, 0.5]) + 0.1 * np.arange(num)[:, None]
    values = np.array([-0.6, -0.3, 0.4]) - 0.1 * np.arange(num)[:, None]
    return MeanWeights(knots, values, np.tile([0.3, 0.9], (num, 1)))


def refined(smc, num_reverse, num_islands, share=0.3):
    parts = parts_of(smc.moves[0].move_at.kernel)
    models = tuple(
        stack(*(wide_lagging(part, 2 * i + time, share) for time in range(2)))
        for i, part in enumerate(parts)
    )
    blank = np.zeros(2)
    index = np.arange(2, dtype=np.int32)
    fit = ReverseFit(models, index, blank, blank, blank, {}, made_up_means(3))
    return RefinedSmc(smc, fit, num_reverse, num_islands)


def smc_on_nine(temperature=0.4):
    return aide.tempered_smc(
        start_on_nine(),
        log_nine,
        kernel=aide.kernels.GibbsSites([0, 1], 3),
        num_particles=2,
        temperatures=[temperature, 1.0],
    )


LANGEVIN_KERNELS = {
    "overdamped": aide.kernels.Ula(0.5),
    "underdamped": aide.kernels.UnderdampedLangevin(0.5, 0.6),
}


def annealed_langevin(name):
    """Three unadjusted steps, with kernels that differ."""
    kernel = LANGEVIN_KERNELS[name]
    smaller = dataclasses.replace(kernel, step_size=0.4)
    kernels = [kernel, smaller, kernel]
    parts = {"kernel": kernels, "temperatures": TEMPERATURES}
    return aide.annealed_langevin(toys.PRIOR, toys.log_joint, **parts)


def wide_tilt(rng, size, noise_size, has_power=False):
    """A tilt that is wrong everywhere; noise is 0.95 to 1.2 times as wide as the kernel's own."""
    bent = rng.normal(0.0, 0.1, (size, size))
    root = np.diag(rng.uniform(0.95, 1.2, noise_size))
    tilt = (0.5 * (bent + bent.T), rng.normal(0.0, 0.2, size))
    slope, shift = rng.normal(0.0, 0.15, (noise_size, size)), rng.normal(0.0, 0.2, noise_size)
    power = 1.0
    if has_power:
        slope = np.concatenate([slope, rng.normal(0.0, 0.1, (noise_size, size))], axis=1)
        power = rng.uniform(0.6, 0.9)
    return TiltedKernel.of(*tilt, slope, shift, root @ root.T, 0.3, power)


def tilted_langevin(name, num_reverse, has_power=False):
    """Unadjusted annealing with made-up tilted models."""
    algorithm, rng = annealed_langevin(name), np.random.default_rng(4)
    sizes = (2, 1) if algorithm.has_momenta else (1, 1)
    num_steps = algorithm.steps().num_steps
    models = (stack(*(wide_tilt(rng, *sizes, has_power) for _ in range(num_steps))),)
    fit = made_up_fit(models, np.arange(num_steps, dtype=np.int32))
    return RefinedLangevin(algorithm, fit, num_reverse)


def tilted_chain(name, num_reverse, has_power=False):
    """A chain with made-up tilted models: branches are weighed."""
    rng = np.random.default_rng(5)
    chain = aide.mcmc(toys.PRIOR, toys.log_joint, kernel=CHAIN_KERNELS[name], num_steps=3)
    models = (stack(*(wide_tilt(rng, 1, 1, has_power) for _ in range(2))),)
    return RefinedChain(chain, made_up_fit(models, np.array([0, 1, 0], np.int32)), num_reverse)


def tilted_smc(name, num_particles, num_reverse, num_islands, num_paths=1, has_power=False):
    """An SMC sampler with made-up tilted models."""
    rng = np.random.default_rng(6)
    models = (stack(*(wide_tilt(rng, 1, 1, has_power) for _ in range(2))),)
    index, blank = np.arange(2, dtype=np.int32), np.zeros(2)
    fit = ReverseFit(models, index, blank, blank, blank, {}, made_up_means(3))
    return RefinedSmc(tempered(name, num_particles), fit, num_reverse, num_islands, num_paths)
