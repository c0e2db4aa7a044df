"""Algorithms in plain NumPy: nothing is compiled, so that a test of many calls is quick."""

import math
import time

import numpy as np

import aide

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


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
