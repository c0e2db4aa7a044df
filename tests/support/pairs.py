r"""Small algorithms for tests of the estimator: cheap to compile, asymmetric, answers known."""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

import aide
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


def arrays(draws: aide.draws.Draws) -> list[np.ndarray]:
    """All log xi, in a fixed order."""
    return [draws.gold.own, draws.gold.cross, draws.target.own, draws.target.cross]


def assert_same(draws: aide.draws.Draws, other: aide.draws.Draws, tolerance: float = 0.0) -> None:
    """All log xi agree: exactly, or to a tolerance."""
    for one, two in zip(arrays(draws), arrays(other), strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def leaves_of(values: Any) -> list[np.ndarray]:
    """The arrays of an output, as NumPy."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(values)]
