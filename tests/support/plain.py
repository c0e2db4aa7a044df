"""Algorithms in plain NumPy: nothing is compiled, so that a test of many calls is quick.

`LocalLevel` holds step functions as a user of `aide.numpy_filter` writes them. `Changed` and
`Plain` are unit normals whose mean comes from a function, in NumPy and in JAX: do scores follow it?
"""

import math
import time
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

import aide
from support.pairs import KEY, LOG_ROOT_TWO_PI


class PlainNoisy:
    r"""$u \sim N(0, 1)$, $x \sim N(m + a u, s^2)$; meta-inference draws $u$ from its prior.

    With $a = 0$ it is tractable. $q(x) = N(x; m, a^2 + s^2)$.
    """

    log_z = 0.0

    def __init__(self, mean: float = 0.0, slope: float = 0.0, std: float = 1.0):
        self.mean, self.slope, self.std = mean, slope, std

    @property
    def aide_identity(self) -> str:
        """Its class and its numbers."""
        return f"{type(self).__name__} {self.mean} {self.slope} {self.std}"

    def simulate(self, rng: np.random.Generator) -> tuple[float, float]:
        u, z = rng.standard_normal(2)
        x = self.mean + self.slope * u + self.std * z
        return x, self._log_xi(u, x)

    def regenerate(self, rng: np.random.Generator, value: float) -> float:
        return self._log_xi(rng.standard_normal(), float(value))

    def _log_xi(self, u: float, x: float) -> float:
        z = (x - self.mean - self.slope * u) / self.std
        return -0.5 * z * z - math.log(self.std) - LOG_ROOT_TWO_PI


class SlowNoisy(PlainNoisy):
    """The same, with time to be killed in."""

    def simulate(self, rng: np.random.Generator) -> tuple[float, float]:
        time.sleep(0.004)
        return super().simulate(rng)


def plain(mean: float = 0.0, slope: float = 0.0, std: float = 1.0) -> aide.PythonAlgorithm:
    """One of them, as the library takes it."""
    return aide.PythonAlgorithm(PlainNoisy(mean, slope, std))


def log_normal(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class LocalLevel:
    """x_1 ~ N(0, 1), x_t ~ N(x_{t-1}, 0.8^2), y_t ~ N(x_t, 0.5^2)."""

    data: Any = field(default_factory=lambda: np.array([0.3, -1.0, 0.5, 0.9]))
    level_std: float = 0.8
    noise_std: float = 0.5

    def initial(self, rng, num):
        return rng.normal(size=num)

    def transition(self, rng, t, particles):
        return particles + self.level_std * rng.normal(size=particles.shape)

    def log_likelihood(self, t, particles):
        return log_normal(self.data[t], particles, self.noise_std)

    def log_initial(self, particles):
        return log_normal(particles, 0.0, 1.0)

    def log_transition(self, t, before, after):
        return log_normal(after, before, self.level_std)

    def exact(self):
        """The same model in JAX, with its exact posterior."""
        return aide.problems.LocalLevelModel(self.data, self.level_std, self.noise_std)

    def filter(self, num_particles, **options):
        settings: dict[str, Any] = {
            "num_steps": len(self.data),
            "log_initial": self.log_initial,
            "log_transition": self.log_transition,
        }
        steps = (self.initial, self.transition, self.log_likelihood)
        return aide.numpy_filter(*steps, num_particles=num_particles, **{**settings, **options})

    def proposal(self):
        """The optimal proposal, p(x_t | x_{t-1}, y_t)."""
        return aide.algorithms.NumpyProposal(
            lambda rng, num: _given(rng, np.zeros(num), 1.0, self.data[0], self.noise_std),
            lambda x: _log_given(x, 0.0, 1.0, self.data[0], self.noise_std),
            lambda rng, t, x: _given(rng, x, self.level_std, self.data[t], self.noise_std),
            lambda t, x, y: _log_given(y, x, self.level_std, self.data[t], self.noise_std),
        )


def _moments(mean, std, y, noise):
    variance = 1 / (1 / std**2 + 1 / noise**2)
    return variance * (mean / std**2 + y / noise**2), np.sqrt(variance)


def _given(rng, mean, std, y, noise):
    center, spread = _moments(mean, std, y, noise)
    return center + spread * rng.normal(size=np.shape(mean))


def _log_given(x, mean, std, y, noise):
    return log_normal(x, *_moments(mean, std, y, noise))


BEFORE, AFTER = 0.0, 2.0
"""The mean before and after a change."""


class Changed:
    """One way to change: `read` before, and what to do; the function may be another afterwards."""

    def __init__(self, read, change):
        self.read, self.change = read, change


class Plain:
    """A unit normal in NumPy."""

    log_z = 0.0

    def __init__(self, read):
        self.read = read

    def simulate(self, rng):
        x = float(self.read() + rng.standard_normal())
        return x, self.regenerate(rng, x)

    def regenerate(self, rng, value):
        return -0.5 * float(value - self.read()) ** 2 - LOG_ROOT_TWO_PI


class Jaxed:
    """The same in JAX."""

    log_z = 0.0

    def __init__(self, read):
        self.read = read

    def simulate(self, key):
        x = self.read() + jax.random.normal(key)
        return aide.Draw(x, self.regenerate(key, x))

    def regenerate(self, key, value):
        return -0.5 * (value - self.read()) ** 2 - LOG_ROOT_TWO_PI


def fixed():
    """The mean of the algorithm that does not change."""
    return 0.5


def draw(pair, **options: Any) -> Any:
    """A few runs, outputs included."""
    settings: dict[str, Any] = {"num_gold": 4, "num_target": 3, "keep_values": True}
    return aide.draw(options.pop("key", KEY), *pair, **{**settings, **options})


def score(x, mean):
    """The log density of a unit normal."""
    return -0.5 * (x - mean) ** 2 - LOG_ROOT_TWO_PI


def is_right(draws, role):
    """Whether all scores by the changed algorithm are those of the new mean."""
    mine, other = (draws.gold, draws.target) if role == 0 else (draws.target, draws.gold)
    own = np.abs(mine.own - score(mine.values, AFTER)[:, None]).max()
    cross = np.abs(other.cross - score(other.values, AFTER)[:, None]).max()
    return own < 1e-9 and cross < 1e-9
