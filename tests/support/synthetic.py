r"""Draws of Gaussian pairs made in NumPy, tractable or with a hidden trace; divergence known.

The hidden trace $u \sim N(0, I)$ is the one of `NoisyGaussian`, in $d$ dimensions: $x \sim N(m + a
u, s^2 I)$ has the density $N(m, (a^2 + s^2) I)$, and meta-inference draws $u$ from its prior.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import aide
from support.made import made_draws


@dataclass(frozen=True)
class Gaussian:
    """d independent normals N(mean, slope^2 + std^2); a slope of 0 is tractable."""

    mean: float
    std: float
    slope: float = 0.0
    dimension: int = 1

    @property
    def total(self) -> float:
        """Standard deviation of the outputs."""
        return float(np.hypot(self.std, self.slope))

    def simulate(self, rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and log xi of the real traces."""
        u = rng.normal(size=(num, self.dimension))
        x = self.mean + self.slope * u + self.std * rng.normal(size=u.shape)
        return x, self._log_xi(u, x)

    def regenerate(self, rng: np.random.Generator, x: np.ndarray, num: int) -> np.ndarray:
        """Log xi of `num` traces per output."""
        if self.slope == 0.0:
            return np.repeat(self._log_xi(np.zeros_like(x), x)[:, None], num, axis=1)
        columns = [self._log_xi(rng.normal(size=x.shape), x) for _ in range(num)]
        return np.stack(columns, axis=1) if columns else np.empty((len(x), 0))

    def _log_xi(self, u: np.ndarray, x: np.ndarray) -> np.ndarray:
        z = (x - self.mean - self.slope * u) / self.std
        return np.sum(-0.5 * z * z - np.log(self.std) - 0.5 * np.log(2 * np.pi), axis=1)


def divergence(gold: Gaussian, target: Gaussian) -> float:
    """Symmetrised KL divergence of the outputs."""
    p, q = gold.total**2, target.total**2
    shift = (gold.mean - target.mean) ** 2
    return gold.dimension * 0.5 * ((p + shift) / q + (q + shift) / p - 2)


def make_draws(
    rng: np.random.Generator,
    gold: Any,
    target: Any,
    nums: tuple[int, int],
    metas: tuple[int, int] = (1, 1),
    log_z: Any = (0.0, 0.0),
) -> aide.draws.Draws:
    """What `aide.draw` would give, with outputs kept."""
    sides = []
    for own, other, num, meta in (
        (gold, target, nums[0], metas),
        (target, gold, nums[1], metas[::-1]),
    ):
        x, first = own.simulate(rng, num)
        more = own.regenerate(rng, x, meta[0])
        scores = np.concatenate([first[:, None], more], axis=1)
        sides.append((scores, other.regenerate(rng, x, meta[1]), x))
    return made_draws(sides[0], sides[1], metas, log_z)


def noisy_pair(wanted: float, dimension: int, slope: float) -> tuple[Gaussian, Gaussian]:
    """Two Gaussians that differ in mean, `wanted` nats apart; `slope` is spread over dimensions."""
    gold = Gaussian(0.0, 1.0, slope / np.sqrt(dimension), dimension)
    return gold, replace(gold, mean=gold.total * float(np.sqrt(wanted / dimension)))
