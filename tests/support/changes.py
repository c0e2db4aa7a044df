"""Unit normals whose mean comes from a function, in NumPy and in JAX; are the scores right?"""

from typing import Any

import jax
import numpy as np

import aide
from support.pairs import KEY, LOG_ROOT_TWO_PI

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
