r"""Small algorithms and pairs with known answers, for tests of the estimator and of the sandwich.

The first ones are cheap to compile and asymmetric. The pairs at the end are the library's own
algorithms: the bimodal problem is the paper's, prior $N(0, 10^2)$, likelihood
$0.7 N(x; -1, 0.1^2) + 0.3 N(x; 1, 0.1^2)$. SIR with $P$ particles from $k$ has the output density
$k(x)\,w(x)\,E[P/(w(x) + \sum_{i<P} w(x_i))]$, here by averaging over many draws of the sum.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference.hmm_excess import enumerate_truth
from scipy import special, stats

import aide
from aide.experiments.bimodal import Bimodal
from aide.problems import HiddenMarkovModel
from aide.problems.distributions import Normal

KEY = jax.random.key(7)
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class NoisyGaussian(eqx.Module):
    r"""$u \sim N(0, 1)$, $x \sim N(m + a u, s^2)$; meta-inference draws $u$ from its prior.

    $\xi = N(x; m + a u, s^2)$ and $q(x) = N(x; m, a^2 + s^2)$.
    """

    mean: float
    slope: float
    std: float

    @property
    def log_z(self) -> float:
        return 0.0

    def simulate(self, key: Any) -> aide.Draw:
        key_u, key_x = jax.random.split(key)
        u = jax.random.normal(key_u)
        x = self.mean + self.slope * u + self.std * jax.random.normal(key_x)
        return aide.Draw(x, self._log_xi(u, x))

    def regenerate(self, key: Any, value: Any) -> Any:
        return self._log_xi(jax.random.normal(key), value)

    def _log_xi(self, u: Any, x: Any) -> Any:
        return Normal(self.mean + self.slope * u, self.std).log_prob(x)


class NumpyGaussian:
    """An exact normal in plain NumPy that counts its runs and can be interrupted."""

    def __init__(self, mean=0.0, std=1.0, stop_after=math.inf):
        self.mean, self.std, self.stop_after = mean, std, stop_after
        self.num_simulated = self.num_regenerated = 0
        self.aide_identity = f"normal, mean {mean}, std {std}"  # counters play no part

    def simulate(self, rng: np.random.Generator) -> tuple[float, float]:
        if self.num_simulated >= self.stop_after:
            raise KeyboardInterrupt
        self.num_simulated += 1
        x = rng.normal(self.mean, self.std)
        return x, self._log_density(x)

    def regenerate(self, rng: np.random.Generator, value: Any) -> float:
        self.num_regenerated += 1
        return self._log_density(value)

    def _log_density(self, x: Any) -> float:
        assert isinstance(x, float)  # math.log and friends must work on what a user receives
        z = (x - self.mean) / self.std
        return -0.5 * z * z - math.log(self.std) - LOG_ROOT_TWO_PI


def gaussian(mean: Any, std: Any, label: str = "") -> aide.Tractable:
    """An exact normal."""
    return aide.Tractable.of(Normal(mean, std), label)


def unnormalised(mean: float, std: float, log_z: float | None, shift: float) -> aide.Tractable:
    """The same with `shift` added to its log density and a claim about it."""
    normal = Normal(mean, std)
    log_density = lambda x: normal.log_prob(x) + shift
    return aide.Tractable(normal.sample, log_density, log_z)


def gaussian_kl(mean, std, other_mean, other_std):
    """KL divergence of N(mean, std^2) from the other one."""
    spread = (std**2 + (mean - other_mean) ** 2) / (2 * other_std**2)
    return math.log(other_std / std) + spread - 0.5


def run(gold: Any, target: Any, num_gold: Any = 20, num_target: Any = 30, **options: Any) -> Any:
    """`aide.estimate` with few runs and a fixed key."""
    key = options.pop("key", KEY)
    return aide.estimate(key, gold, target, num_gold=num_gold, num_target=num_target, **options)


def arrays(draws: aide.engine.Draws) -> list[np.ndarray]:
    """All log xi, in a fixed order."""
    return [draws.gold.own, draws.gold.cross, draws.target.own, draws.target.cross]


def assert_same(draws: aide.engine.Draws, other: aide.engine.Draws, tolerance: float = 0.0) -> None:
    """All log xi agree: exactly, or to a tolerance."""
    for one, two in zip(arrays(draws), arrays(other), strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def leaves_of(values: Any) -> list[np.ndarray]:
    """The arrays of an output, as NumPy."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(values)]


HMM = HiddenMarkovModel(
    [0.5, 0.3, 0.2],
    [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.25, 0.5]],
    [[0.7, 0.2, 0.1], [0.15, 0.7, 0.15], [0.1, 0.3, 0.6]],
    [0, 2, 1, 1],
)
Known = tuple[Any, Any, float]
"""Gold standard, target and their divergence."""


class Mixture(eqx.Module):
    """A mixture of normals."""

    weights: Any
    means: Any
    stds: Any

    def sample(self, key: Any) -> Any:
        """Choose a component, then draw from it."""
        key_which, key_x = jax.random.split(key)
        which = jax.random.categorical(key_which, jnp.log(jnp.asarray(self.weights)))
        noise = jax.random.normal(key_x)
        return jnp.asarray(self.means)[which] + jnp.asarray(self.stds)[which] * noise

    def log_prob(self, x: Any) -> Any:
        """Normalised log density."""
        z = (x - jnp.asarray(self.means)) / jnp.asarray(self.stds)
        each = -0.5 * z * z - jnp.log(jnp.asarray(self.stds)) - 0.5 * jnp.log(2 * jnp.pi)
        return jax.nn.logsumexp(each, b=jnp.asarray(self.weights))

    def log_pdf(self, x: np.ndarray) -> np.ndarray:
        """The same in NumPy, for many points."""
        each = stats.norm.logpdf(x[:, None], self.means, self.stds)
        return special.logsumexp(each, axis=1, b=self.weights)


def _divergence(log_p: np.ndarray, log_q: np.ndarray, step: float) -> float:
    return float(np.sum((np.exp(log_p) - np.exp(log_q)) * (log_p - log_q)) * step)


def bimodal_modes() -> Known:
    """½N(−8,1) + ½N(8,1) and an approximation that sits in one mode."""
    gold = Mixture(np.array([0.5, 0.5]), np.array([-8.0, 8.0]), np.array([1.0, 1.0]))
    x = np.linspace(-20.0, 20.0, 40_001)
    truth = _divergence(gold.log_pdf(x), stats.norm.logpdf(x, 8.0), x[1] - x[0])
    return aide.Tractable.of(gold), aide.Tractable.of(Normal(8.0, 1.0)), truth


def bimodal_sir(num_particles: int) -> Known:
    """The paper's bimodal posterior and SIR whose proposal sits near the smaller mode."""
    modes, shrink = np.array([-1.0, 1.0]), 100.0 / 100.01
    mass = np.array([0.7, 0.3]) * stats.norm.pdf(modes, 0.0, np.sqrt(100.01))
    posterior = Mixture(mass / mass.sum(), shrink * modes, 0.1 * np.sqrt(shrink) * np.ones(2))
    x = np.linspace(-1.9, 1.9, 3801)
    log_p, log_k = posterior.log_pdf(x), stats.norm.logpdf(x, 2.0, 0.5)
    others = np.random.default_rng(0).normal(2.0, 0.5, size=(20_000, num_particles - 1))
    weight = np.exp(posterior.log_pdf(others.ravel()) - stats.norm.logpdf(others.ravel(), 2.0, 0.5))
    total = weight.reshape(others.shape).sum(axis=1)
    own = np.exp(log_p - log_k)
    share = np.array([np.mean(num_particles * w / (w + total)) for w in own])
    truth = _divergence(log_p, log_k + np.log(share), x[1] - x[0])
    return aide.Tractable.of(posterior), Bimodal().algorithm("offset", num_particles), truth


def hidden_markov(num_particles: int) -> Known:
    """A path of four steps through three states, and a bootstrap filter."""
    target = aide.ParticleFilter(HMM.state_space(), num_particles)
    truth = enumerate_truth(HMM, False, num_particles).divergence
    return HMM.posterior(), target, truth


def slices(gold: Any, target: Any, num: int, count: int, meta: int) -> Iterator[aide.engine.Draws]:
    """Replications: one long run with outputs, `num` runs of each algorithm at a time."""
    draws = aide.draw(
        jax.random.key(11),
        gold,
        target,
        num_gold=num * count,
        num_target=num * count,
        num_meta_gold=meta,
        num_meta_target=meta,
        keep_values=True,
    )
    for index in range(count):
        rows = slice(index * num, (index + 1) * num)
        yield replace(draws, gold=draws.gold.take(rows), target=draws.target.take(rows))
