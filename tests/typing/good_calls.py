"""What a user may write: none of it may trouble a type checker. Never run, only checked."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import aide
from aide.problems.distributions import Normal

key = jax.random.key(0)


class Annotated:
    """An algorithm with types, and no base class."""

    log_z = 0.0

    def simulate(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jax.random.normal(key)
        return x, self.regenerate(key, x)

    def regenerate(self, key: jax.Array, value: jax.Array) -> jax.Array:
        return -0.5 * value**2


class Bare:
    """An algorithm without types."""

    def simulate(self, key):
        return aide.Draw(jax.random.normal(key), jnp.zeros(()))

    def regenerate(self, key, value):
        return jnp.zeros(())


class Module(eqx.Module):
    """An algorithm as an equinox module, with versions of its own."""

    num_particles: int
    scale: float = 1.0

    def simulate(self, key: jax.Array) -> aide.Draw:
        return aide.Draw(jax.random.normal(key), jnp.zeros(()))

    def regenerate(self, key: jax.Array, value: jax.Array) -> jax.Array:
        return jnp.zeros(())

    def with_budget(self, factor: float) -> "Module":
        return Module(int(factor * self.num_particles), self.scale)


class InNumpy:
    """An algorithm in NumPy."""

    def simulate(self, rng: np.random.Generator) -> tuple[float, float]:
        return rng.normal(), 0.0

    def regenerate(self, rng: np.random.Generator, value: float) -> float:
        return 0.0


class LikeNumPyro:
    """A distribution as in NumPyro: more arguments, another name for the value."""

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return jax.random.normal(key, sample_shape)

    def log_prob(self, value: jax.Array, intermediates: list | None = None) -> jax.Array:
        return -0.5 * value**2


class LikeDistrax:
    """A distribution as in distrax: the key is called seed, and by name."""

    def sample(self, *, seed: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return jax.random.normal(seed, sample_shape)

    def log_prob(self, value: jax.Array) -> jax.Array:
        return -0.5 * value**2


class Walk(aide.kernels.AbstractMetropolis):
    """A Metropolis kernel."""

    def noise(self, key, x):
        return jax.random.normal(key)

    def log_noise(self, x, v):
        return -0.5 * v**2

    def involution(self, log_density, x, v):
        return x + v, -v


class Foreign:
    """A kernel without a base class."""

    def step(self, key, log_density, x):
        return x

    def reversal(self) -> "Foreign":
        return self


def log_joint(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum((x - 1.0) ** 2)


class LogJoint(eqx.Module):
    """A log density as a module."""

    y: float

    def __call__(self, x: jax.Array) -> jax.Array:
        return -0.5 * (x - self.y) ** 2


def transition(key, x):
    return x


prior = Normal(0.0, 1.0)
walk = aide.kernels.RandomWalk(0.5)
ula = aide.kernels.Ula(0.1)
sweep = aide.kernels.Cycle(walk, aide.kernels.Repeat(aide.kernels.Hmc([0.1, 0.2], 3), 2))
densities: list[Callable[[jax.Array], jax.Array]] = [log_joint, LogJoint(1.0), prior.log_prob]

for density in densities:
    aide.sir(prior, density, num_particles=3)
aide.sir(LikeNumPyro(), log_joint, num_particles=3).with_start(LikeDistrax(), label="there")
exact = aide.Tractable(lambda key: jax.random.normal(key), lambda x: -0.5 * x**2)
aide.ais(exact, LogJoint(1.0), kernel=walk, temperatures=[0.5, 1.0])
hmcs = [aide.kernels.Hmc(0.1, 3, [1.0, 2.0]), aide.kernels.Hmc(0.2, 4, [1.0, 3.0])]
aide.ais(exact, LogJoint(1.0), kernel=hmcs, num_temperatures=3)
aide.ais(exact, LogJoint(1.0), kernel=aide.kernels.stack_kernels(hmcs), num_temperatures=3)
aide.mcmc(prior, log_joint, kernel=[ula, ula], num_steps=2)
aide.ais(LikeDistrax(), log_joint, kernel=Walk(), temperatures=np.array([0.5, 1.0]))
aide.ais(prior, log_joint, kernel=Foreign(), num_temperatures=3)
smc = aide.tempered_smc(
    prior, log_joint, kernel=sweep, num_particles=5, num_temperatures=3, resampler="systematic"
)
smc.kernels()
aide.smc.Smc(prior, (aide.smc.Rejuvenate(walk, log_joint),), log_joint, 3)
aide.smc.EssBelow(0.5, aide.smc.Systematic())
aide.kernels.Cycle(ula, walk).step(key, log_joint, jnp.zeros(2))
aide.kernels.OnEntry("x", ula)
chain = aide.mcmc(prior, log_joint, kernel=walk, num_steps=10)
gold = aide.Tractable.of(LikeNumPyro(), label="exact")
print(gold.simulate(key).value)
aide.RejectionSampler(prior, log_joint, 2.0)
aide.ForwardReverse(lambda key: (jnp.zeros(()), 0.0), lambda key, x: 0.0, log_joint)
model = aide.StateSpaceModel(
    prior, lambda x, t: Normal(x, 1.0), lambda x, t: Normal(x, 0.5), [0.1, 0.4]
)
aide.ParticleFilter(model, 10, resampler=aide.smc.EssBelow(0.5))

for algorithm in (Annotated(), Bare(), Module(5), aide.PythonAlgorithm(InNumpy()), smc, chain):
    result = aide.estimate(key, gold, algorithm, num_gold=10, num_target=10)
    print(result.value + result.std_error, result.judge(0.5).upper)
    report = aide.check(key, algorithm, num_runs=600)
    print(report.passed)
    aide.audit(
        key, algorithm, starts={"there": smc}, with_budget=lambda factor: Module(int(5 * factor))
    )
aide.compare(3, gold, {"chain": chain})
aide.check_kernel(3, walk, log_joint, prior)
aide.check_kernel(key, ula, log_joint, prior, reversal=False)
aide.check_kernel(key, transition, log_joint, prior, reversal=transition)
calibration = aide.check_calibration(
    key,
    lambda key: (jnp.zeros(()), jnp.ones(())),
    lambda key, y: jnp.ones(100),
    log_joint=lambda x, y: log_joint(x),
    num_datasets=20,
)
print(calibration.ranks.shape, calibration.p_value, calibration.verdict)
aide.audit_simulated(
    key,
    lambda key: (jnp.zeros(()), jnp.ones(())),
    lambda x, y: log_joint(x),
    lambda y: aide.sir(prior, LogJoint(y), num_particles=3),
)
