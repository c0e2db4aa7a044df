"""The local-level model as NumPy step functions: what a user of `aide.numpy_filter` writes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import aide


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
