"""Right algorithms and wrong versions of them, one mistake each: what `aide.check` must find."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems import DirichletMixture
from aide.problems.distributions import Normal
from aide.problems.dpmm.move import AddDatum
from aide.smc.steps import Steps
from support import toys, wrong
from support.registry import HMM


class Injected(NamedTuple):
    """A mistake: the algorithm it is made in, and the wrong version."""

    family: str
    mistake: str
    right: Callable[[], Any]
    wrong: Callable[[], Any]


class NoKinetic(aide.kernels.Hmc):
    """Accepts by the density alone: the noise's density is left out."""

    def log_noise(self, x, v):
        """The mistake."""
        return jnp.zeros(())


class NoJacobian(aide.kernels.Hmc):
    """Stretches the momentum on the way, a change of volume that the acceptance ignores."""

    def involution(self, log_density, x, v):
        """The mistake."""
        y, w = super().involution(log_density, x, v)
        return jax.tree.map(lambda a: 1.25 * a, y), w


class UserSir(eqx.Module):
    """Sampling-importance-resampling as a user would write it."""

    num_particles: int = eqx.field(static=True)
    reuse_key: bool = eqx.field(static=True, default=False)

    @property
    def log_z(self):
        """Normalised."""
        return 0.0

    def simulate(self, key):
        """Draw, weigh, choose one."""
        key_draw, key_pick = jax.random.split(key)
        x = 1.2 * jax.random.normal(key_draw, (self.num_particles,))
        log_w = jax.vmap(toys.log_likelihood)(x)
        # The mistake: the choice is made from the random bits that made the particles.
        chosen = jax.random.categorical(key_draw if self.reuse_key else key_pick, log_w)
        return aide.Draw(x[chosen], self._log_xi(x[chosen], log_w))

    def regenerate(self, key, value):
        """Put the value into the first slot."""
        x = 1.2 * jax.random.normal(key, (self.num_particles,))
        return self._log_xi(value, jax.vmap(toys.log_likelihood)(x.at[0].set(value)))

    def _log_xi(self, x, log_w):
        evidence = jax.nn.logsumexp(log_w) - jnp.log(self.num_particles)
        return toys.log_joint(x) - evidence


class OffByOne(aide.ParticleFilter):
    """The retained particle is weighed with the observation before its own."""

    def regenerate(self, key, value):
        """The mistake, made in the whole of the conditional weights."""
        right = aide.ParticleFilter(self.model, self.num_particles, self.proposal, self.resampler)
        log_xi = right.regenerate(key, value)
        y = jnp.asarray(self.model.observations)
        times = jnp.arange(1, self.model.num_steps)
        score = lambda x, y, t: self.model.log_likelihood(x, y, t)
        after = jax.tree.map(lambda a: a[1:], value)
        right_w = jnp.sum(jax.vmap(score)(after, y[1:], times))
        wrong_w = jnp.sum(jax.vmap(score)(after, y[:-1], times))
        return log_xi + right_w - wrong_w


class NoSweepBack(AddDatum):
    """Backward drops the datum and leaves out the reversed sweep."""

    def backward(self, key, y):
        """The mistake."""
        right = AddDatum(self.data, self.num_seen, jnp.int32(0), self.optimal, self.frozen)
        return right.backward(key, y)


class NextWrong(eqx.Module):
    """Builds `NoSweepBack` moves."""

    right: Any

    def __call__(self, num_seen):
        """The wrong move in place of the right one."""
        move = self.right(num_seen)
        fields = ("data", "num_seen", "num_sweeps", "optimal", "frozen")
        return NoSweepBack(*(getattr(move, name) for name in fields))


def mixture(broken=False):
    """Four data, hyperparameters fixed, one sweep; likelihood weighting otherwise."""
    fixed = {"alpha": 1.2, "m": 0.1, "r": 0.05, "nu": 6.0, "s": 1.0}
    smc = DirichletMixture([0.0, 0.8, 1.6, 0.5], fixed=fixed).smc(1, num_sweeps=1)
    if broken:
        (steps,) = smc.moves
        assert isinstance(steps, Steps)
        smc = eqx.tree_at(lambda s: s.moves, smc, (Steps(NextWrong(steps.move_at), steps.inputs),))
    return smc


def sir(num=3):
    """The library's."""
    return aide.sir(toys.PRIOR, toys.log_joint, num_particles=num)


def tempered(kernel, num=2):
    """Three temperatures."""
    path: Any = {"kernel": kernel, "temperatures": [0.2, 0.6, 1.0]}
    return aide.tempered_smc(toys.PRIOR, toys.log_joint, num_particles=num, **path)


def gibbs_ais():
    """A table where the order of the sites matters."""
    path: Any = {"kernel": aide.kernels.GibbsSites(np.arange(2), 3), "temperatures": [0.8, 1.0]}
    return aide.ais(toys.TABLE_START, toys.log_table, **path)


def ising_filter(proposal=None, num=20):
    """A filter on a small HMM with five observations, as large as a user might check it."""
    model = aide.problems.HiddenMarkovModel(HMM.initial, HMM.transition, HMM.emission, [0, 1, 1, 0])
    chosen = model.optimal_proposal() if proposal == "optimal" else None
    return aide.ParticleFilter(model.state_space(), num, chosen)


def sticky(scheme):
    """A filter with a scheme other than multinomial."""
    return aide.ParticleFilter(toys.STICKY.state_space(), 10, None, aide.smc.EveryStep(scheme))


def density(std):
    """A normal with standard deviation 0.9, claiming `std`."""
    return aide.Tractable(Normal(-0.4, 0.9).sample, Normal(-0.4, std).log_prob)


HMC, MALA, WALK = aide.kernels.Hmc(0.4, 3), aide.kernels.Mala(0.7), aide.kernels.RandomWalk(0.8)
INJECTED = [
    Injected("SIR", "log P forgotten in regenerate", sir, lambda: wrong.WrongSum(sir())),
    Injected("SIR", "log P forgotten in both", sir, lambda: wrong.WrongSumTwice(sir())),
    Injected("SIR", "one particle too many", sir, lambda: wrong.WrongExtraParticle(sir())),
    Injected("SIR", "output not retained", sir, lambda: wrong.WrongUnconditional(sir())),
    Injected("SIR by hand", "key used twice", lambda: UserSir(3), lambda: UserSir(3, True)),
    Injected(
        "filter, optimal proposal",
        "retained weight at the wrong state",
        lambda: ising_filter("optimal"),
        lambda: wrong.retained_weight(ising_filter("optimal")),
    ),
    Injected(
        "filter, prior proposal",
        "retained weight off by one step",
        ising_filter,
        lambda: OffByOne(ising_filter().model, 20),
    ),
    Injected(
        "filter, systematic",
        "resampler without its twin",
        lambda: sticky(aide.smc.Systematic()),
        lambda: wrong.unconditional_resampling(sticky(aide.smc.Systematic())),
    ),
    Injected(
        "filter, stratified",
        "resampler without its twin",
        lambda: sticky(aide.smc.Stratified()),
        lambda: wrong.unconditional_resampling(sticky(aide.smc.Stratified())),
    ),
    Injected(
        "AIS, Gibbs",
        "sweep not reversed",
        gibbs_ais,
        lambda: wrong.sweep_not_reversed(gibbs_ais()),
    ),
    Injected(
        "AIS, random walk",
        "another temperature backward",
        lambda: tempered(WALK, 1),
        lambda: wrong.temperature(tempered(WALK, 1)),
    ),
    Injected(
        "tempered SMC, random walk",
        "kernel one temperature ahead",
        lambda: tempered(WALK),
        lambda: wrong.one_temperature_ahead(tempered(WALK)),
    ),
    Injected(
        "tempered SMC, MALA",
        "no Hastings correction",
        lambda: tempered(MALA),
        lambda: tempered(NoKinetic(0.7, 1)),
    ),
    Injected(
        "tempered SMC, HMC",
        "Jacobian left out",
        lambda: tempered(HMC),
        lambda: tempered(NoJacobian(0.4, 3)),
    ),
    Injected(
        "tempered SMC, random walk",
        "drift ignored in the acceptance",
        lambda: tempered(WALK),
        lambda: tempered(wrong.WrongDrift(0.8)),
    ),
    Injected("mixture, Gibbs", "backward sweep left out", mixture, lambda: mixture(True)),
    Injected(
        "variational fit",
        "density not normalised",
        lambda: density(0.9),
        lambda: wrong.WrongConstant(density(0.9)),
    ),
    Injected("variational fit", "another density", lambda: density(0.9), lambda: density(1.0)),
    Injected("SIR", "evidence multiplied, not divided", sir, lambda: wrong.WrongSign(sir())),
]
