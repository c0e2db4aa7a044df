"""What a user should not write: a type checker sees every line marked so. Never run."""

import jax
import jax.numpy as jnp

import aide
from aide.problems.distributions import Normal


class NoRegenerate:
    """Half an algorithm."""

    def simulate(self, key):
        return aide.Draw(jax.random.normal(key), jnp.zeros(()))


class OnlyValue:
    """An algorithm that forgets log xi."""

    def simulate(self, key: jax.Array) -> jax.Array:
        return jax.random.normal(key)

    def regenerate(self, key: jax.Array, value: jax.Array) -> jax.Array:
        return jnp.zeros(())


class NoDensity:
    """A sampler without a density."""

    def sample(self, key):
        return jax.random.normal(key)


class OnlyStep:
    """A kernel that does not say how it reverses."""

    def step(self, key, log_density, x):
        return x


def log_joint(x: jax.Array) -> jax.Array:
    return -0.5 * x**2


key = jax.random.key(0)
prior = Normal(0.0, 1.0)
walk = aide.kernels.RandomWalk(0.5)
ula = aide.kernels.Ula(0.1)
gold = aide.sir(prior, log_joint, num_particles=3)

aide.estimate(key, gold, gold, num_gold="500")  # bad
aide.estimate(key, gold)  # bad
aide.estimate(key, gold, prior)  # bad
aide.estimate(key, NoRegenerate(), gold)  # bad
aide.draw(key, gold, OnlyValue())  # bad
aide.compare(key, gold, {"prior": prior})  # bad
aide.check(key, NoRegenerate())  # bad
aide.check(key, OnlyValue())  # bad
aide.check(key, prior)  # bad
aide.check(key, gold, num_runs=1000.5)  # bad
aide.audit(key, NoRegenerate())  # bad
aide.audit(key, gold, starts={"wide": prior})  # bad
aide.audit(key, gold, with_budget=lambda factor: prior)  # bad
aide.PythonAlgorithm(NoRegenerate())  # bad
aide.sir(Normal, log_joint, num_particles=3)  # bad
aide.sir(NoDensity(), log_joint, num_particles=3)  # bad
aide.sir(prior, 3.0, num_particles=3)  # bad
aide.sir(prior, log_joint)  # bad
aide.sir(prior, log_joint, num_particles=3).with_start(NoDensity())  # bad
aide.Tractable.of(NoDensity())  # bad
aide.Tractable(prior, log_joint)  # bad
aide.ais(prior, log_joint, kernel=ula, num_temperatures=3)  # bad
aide.ais(prior, log_joint, kernel=OnlyStep(), num_temperatures=3)  # bad
aide.ais(prior, log_joint, kernel=aide.kernels.Hmc, num_temperatures=3)  # bad
aide.ais(prior, log_joint, kernel=walk, num_temperatures=3, resampler=2)  # bad
aide.tempered_smc(prior, log_joint, kernel=ula, num_particles=2, num_temperatures=3)  # bad
aide.tempered_smc(prior, log_joint, kernel=walk, num_particles="2", num_temperatures=3)  # bad
aide.tempered_smc(
    prior,
    log_joint,
    kernel=walk,
    num_particles=2,
    num_temperatures=3,
    resampler=4,  # bad
)
aide.smc.Rejuvenate(ula, log_joint)  # bad
aide.smc.Rejuvenate(walk)  # bad
aide.kernels.RandomWalk("0.5")  # bad
aide.kernels.Hmc(0.1)  # bad
aide.kernels.Cycle(aide.kernels.Hmc)  # bad
aide.kernels.Repeat(walk, 2.5)  # bad
aide.kernels.OnEntry("x", log_joint)  # bad
aide.kernels.Independence(Normal)  # bad
aide.check_kernel(key, walk, log_joint, NoDensity())  # bad
aide.check_kernel(key, 3.0, log_joint, prior)  # bad
ula.reversal()  # bad
gold.simulate()  # bad
