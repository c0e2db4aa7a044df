"""Output densities of Markov chains by plain means: a grid, or very many chains run forwards.

Nothing here is learned, and nothing of the library is used.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from reference.chain_truth import LogDensity, Truth


def sgld_truth(
    steps: Iterable[int],
    log_start: LogDensity,
    log_posterior: LogDensity,
    drifts: Callable[[np.ndarray], np.ndarray],
    h: float,
    grid: np.ndarray,
) -> dict[int, Truth]:
    r"""Langevin on the line with one of several drifts per step, by a dense transition matrix.

    $q_{t+1}(y) = \int q_t(x) \frac1B\sum_i N(y; x + \frac{h^2}{2} d_i(x), h^2)\,dx$; `drifts(grid)`
    has one row per mini-batch.
    """
    width = grid[1] - grid[0]
    centres = grid + 0.5 * h**2 * drifts(grid)
    matrix = np.mean([stats.norm.pdf(grid[:, None], c, h) for c in centres], axis=0) * width
    q, log_p = np.exp(log_start(grid)), log_posterior(grid)
    found, wanted = {}, set(steps)
    for t in range(max(wanted) + 1):
        if t in wanted:
            log_q = np.log(np.maximum(q, 1e-300))
            value = float(np.sum((np.exp(log_p) - q) * (log_p - log_q)) * width)
            found[t] = Truth(value, lambda x, log_q=log_q: np.interp(x, grid, log_q))
        q = matrix @ q
    return found


def sgld_cumulants(
    num_steps: int, start: tuple[float, float], pulls: np.ndarray, slope: float, h: float
) -> np.ndarray:
    r"""Mean, variance and third cumulant for drifts $a_i - b x$, which share their slope: exact.

    The state is $c x + \frac{h^2}{2} a_i + h z$ with $c = 1 - \frac{h^2}{2} b$: cumulants add up.
    """
    push = 0.5 * h**2 * np.asarray(pulls)
    added = [push.mean(), push.var() + h**2, np.mean((push - push.mean()) ** 3)]
    powers = (1 - 0.5 * h**2 * slope) ** np.arange(1, 4)
    kept = np.array([start[0], start[1] ** 2, 0.0])
    for _ in range(num_steps):
        kept = powers * kept + added
    return kept


class Groups(NamedTuple):
    """Estimates of an output density at n points by G independent groups, [G, n].

    `shared` is the variance of log q, [n], that comes from what all groups have in common.
    """

    density: np.ndarray
    shared: Any = 0.0

    @property
    def log_q(self) -> np.ndarray:
        """The log of the mean over groups, less its jackknife bias."""
        number = len(self.density)
        whole = np.log(self.density.mean(axis=0))
        return number * whole - (number - 1) * self._without().mean(axis=0)

    def spread(self, signs: np.ndarray) -> tuple[float, float]:
        """Of the sum of `signs` times log q: jackknife standard error, and the bias taken off."""
        number, sums = len(self.density), self._without() @ signs
        whole = np.log(self.density.mean(axis=0)) @ signs
        bias = (number - 1) * (sums.mean() - whole)
        variance = (number - 1) * np.mean((sums - sums.mean()) ** 2) + signs**2 @ (
            self.shared + np.zeros(signs.size)
        )
        return float(np.sqrt(variance)), float(bias)

    def _without(self) -> np.ndarray:
        number = len(self.density)
        return np.log((self.density.sum(axis=0) - self.density) / (number - 1))


class Langevin(NamedTuple):
    """MALA with step size h on a density of vectors; `sample(key)` is its start."""

    sample: Callable[[Any], Any]
    log_start: Callable[[Any], Any]
    log_density: Callable[[Any], Any]
    h: float

    def mean(self, x: Any) -> Any:
        """Where proposals from the rows of x are centred."""
        return x + 0.5 * self.h**2 * jax.vmap(jax.grad(self.log_density))(x)

    def log_ratio(self, x: Any, y: Any) -> Any:
        """Log Metropolis ratio of moves between rows."""
        there, back = jnp.sum((y - self.mean(x)) ** 2, -1), jnp.sum((x - self.mean(y)) ** 2, -1)
        density = jax.vmap(self.log_density)
        return density(y) - density(x) + 0.5 * (there - back) / self.h**2


def forward_density(
    key: Any, chain: Langevin, num_steps: int, points: np.ndarray, groups: int, chains: int
) -> Groups:
    r"""The output density of MALA from chains run forwards.

    $q_t(x) = A_t(x) + r(x) q_{t-1}(x)$, where $A_t(x)$ is the mean over chains at time $t - 1$ of
    proposal density times acceptance, and $r(x)$ the probability of a rejection at $x$, the mean
    over a tenth as many proposals as there are chains, for each point.
    """
    with jax.enable_x64(True):
        points = np.asarray(points)
        key_reject, key_chains = jax.random.split(key)
        refuse = jax.jit(lambda k, x: _reject(k, chain, x, 1000))
        arrive = jax.jit(lambda k, x, r: _arrive(k, chain, num_steps, x, r, chains))
        keys = jax.random.split(key_reject, max(1, groups * chains // 10_000))
        reject = np.mean([refuse(k, points) for k in keys], axis=0)
        number = 1000 * len(keys)
        keys = jax.random.split(key_chains, groups)
        run = lambda k: arrive(k, points, reject)
        found, slopes = (np.stack(part) for part in zip(*map(run, keys), strict=True))
        variance = reject * (1 - reject) / number
        return Groups(found, (slopes.mean(axis=0) / found.mean(axis=0)) ** 2 * variance)


def _reject(key: Any, chain: Langevin, points: Any, num: int) -> Any:
    def one(total: Any, key: Any) -> Any:
        y = chain.mean(points) + chain.h * jax.random.normal(key, points.shape)
        return total - jnp.expm1(jnp.minimum(0.0, chain.log_ratio(points, y))), None

    zero = jnp.zeros(len(points))
    return jax.lax.scan(one, zero, jax.random.split(key, num))[0] / num


def _arrive(
    key: Any, chain: Langevin, num_steps: int, points: Any, reject: Any, chains: int
) -> Any:
    """The density at the points and its derivative in the rejection probability."""
    key_start, key_steps = jax.random.split(key)
    here, centre = jax.vmap(chain.log_density)(points), chain.mean(points)
    scale = 0.5 / chain.h**2

    def transition(carry: Any, key: Any) -> Any:
        x, q, slope = carry
        mean = chain.mean(x)
        ahead = -scale * _squares(points, mean)
        back = here[:, None] - jax.vmap(chain.log_density)(x) - scale * _squares(centre, x)
        arrive = jnp.mean(jnp.exp(jnp.minimum(ahead, back)), axis=1)
        slope = q + reject * slope
        q = arrive * (scale / jnp.pi) ** (0.5 * points.shape[1]) + reject * q
        key_noise, key_accept = jax.random.split(key)
        y = mean + chain.h * jax.random.normal(key_noise, x.shape)
        accept = jnp.log(jax.random.uniform(key_accept, (chains,))) < chain.log_ratio(x, y)
        return (jnp.where(accept[:, None], y, x), q, slope), None

    x = jax.vmap(chain.sample)(jax.random.split(key_start, chains))
    first = (x, jnp.exp(jax.vmap(chain.log_start)(points)), jnp.zeros(len(points)))
    return jax.lax.scan(transition, first, jax.random.split(key_steps, num_steps))[0][1:]


def _squares(a: Any, b: Any) -> Any:
    return jnp.sum(a**2, -1)[:, None] + jnp.sum(b**2, -1) - 2 * a @ b.T
