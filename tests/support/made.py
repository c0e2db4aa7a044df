r"""Draws made by hand: tables of scores instead of runs; of Gaussian pairs; skewed terms.

**Gaussian pairs** (`Gaussian`) are made in NumPy, tractable or with a hidden trace; their
divergence is known. The hidden trace $u \sim N(0, I)$ is the one of `NoisyGaussian`, in $d$
dimensions: $x \sim N(m + a u, s^2 I)$ has the density $N(m, (a^2 + s^2) I)$, and meta-inference
draws $u$ from its prior.

**Skewed terms** are terms of AIDE for tractable pairs with known divergence, skewed in every way up
to about 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

import aide
from aide._core.types import Role
from aide.engine.draws import Draws, Runs, Side


def made_draws(
    gold: Sequence[Any],
    target: Sequence[Any],
    metas: tuple[int, int] = (1, 1),
    log_z: tuple[float | None, float | None] = (None, None),
    names: tuple[str, str] = ("gold", "target"),
) -> Draws:
    """Draws whose sides are given by own scores, cross scores and, perhaps, outputs."""
    first, second = (
        Side(*tables, role=role, num_meta=metas[role], log_z=log_z[role], name=names[role])
        for role, tables in zip(Role, (gold, target), strict=True)
    )
    return Draws(first, second)


def with_log_z(draws: Draws, log_z: tuple[float | None, float | None]) -> Draws:
    """The same runs under other claims."""
    for side in draws.sides:
        draws = draws.with_side(replace(side, log_z=log_z[side.role]))
    return draws


def with_tables(draws: Draws, role: Role, own: np.ndarray, cross: np.ndarray) -> Draws:
    """The same algorithms with other scores on one side, without outputs."""
    return draws.with_side(draws.side(role).with_runs(Runs(own, cross)))


def swapped(draws: Draws) -> Draws:
    """Gold standard and target change places."""
    gold, target = (replace(side, role=side.role.other) for side in draws.sides[::-1])
    return replace(draws, gold=gold, target=target)


def estimate_with(
    gold_terms: Any,
    target_terms: Any,
    log_z: tuple[float | None, float | None] = (0.0, 0.0),
    names: tuple[str, str] = ("gold", "target"),
) -> aide.estimation.Estimate:
    """An estimate with the given terms: own scores are 0."""
    gold, target = (
        (np.zeros((len(terms), 2)), -np.asarray(terms, float)[:, None])
        for terms in (gold_terms, target_terms)
    )
    return aide.estimation.Estimate(made_draws(gold, target, log_z=log_z, names=names))


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
) -> aide.engine.Draws:
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


class Pair(NamedTuple):
    """The divergence, and a sampler of gold and target terms of any shape (rows, columns)."""

    divergence: float
    sample: Callable[[np.random.Generator, int, int, int], tuple[np.ndarray, np.ndarray]]


def gaussians(mean: float, std: float, dimension: int = 1) -> Pair:
    """N(0, I) and N(mean, std^2 I)."""

    def ratio(z: np.ndarray) -> np.ndarray:
        return np.sum(0.5 * ((z - mean) / std) ** 2 - 0.5 * z * z + np.log(std), axis=-1)

    def sample(rng, rows, num_gold, num_target):
        x = rng.normal(size=(rows, num_gold, dimension))
        y = mean + std * rng.normal(size=(rows, num_target, dimension))
        return ratio(x), -ratio(y)

    spread = (1 + mean**2) / std**2 + std**2 + mean**2 - 2
    return Pair(0.5 * dimension * spread, sample)


def gammas(shape: float, scale: float) -> Pair:
    """Gamma(shape, 1) and Gamma(shape, scale): terms with skewness 2/sqrt(shape)."""

    def ratio(z: np.ndarray) -> np.ndarray:
        return z / scale - z + shape * np.log(scale)

    def sample(rng, rows, num_gold, num_target):
        x = rng.gamma(shape, size=(rows, num_gold))
        return ratio(x), -ratio(scale * rng.gamma(shape, size=(rows, num_target)))

    return Pair(shape * (scale + 1 / scale - 2), sample)


def coins(p: float, q: float) -> Pair:
    """Two Bernoulli distributions: terms with two atoms."""
    heads, tails = np.log(p / q), np.log((1 - p) / (1 - q))

    def sample(rng, rows, num_gold, num_target):
        x, y = rng.random((rows, num_gold)) < p, rng.random((rows, num_target)) < q
        return np.where(x, heads, tails), -np.where(y, heads, tails)

    return Pair((p - q) * (heads - tails), sample)


PAIRS = {
    "Gaussians, shifted": gaussians(0.5, 1.0),
    "Gaussians, nearly equal": gaussians(0.1, 1.02),
    "Gaussians, 1.5 times as wide": gaussians(0.0, 1.5),
    "Gaussians, 3 times as wide": gaussians(0.0, 3.0),
    "Gaussians, 10-D": gaussians(0.3, 1.2, 10),
    "exponentials, 2 times": gammas(1.0, 2.0),
    "gammas, 5 times": gammas(0.46, 5.0),
    "gammas, 1.2 times": gammas(0.46, 1.2),
    "coins, 0.3 and 0.1": coins(0.3, 0.1),
    "coins, 0.15 and 0.1": coins(0.15, 0.1),
    "coins, 0.12 and 0.5": coins(0.12, 0.5),
}


def welch(gold: np.ndarray, target: np.ndarray, level: float) -> float:
    """Student's limit with Welch's degrees of freedom, which knows nothing of skewness."""
    parts = [(terms.var(ddof=1) / terms.size, terms.size) for terms in (gold, target)]
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v * v / (n - 1) for v, n in parts)
    return gold.mean() + target.mean() + special.stdtrit(freedom, level) * np.sqrt(total)
