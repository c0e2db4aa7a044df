"""Output densities of Markov chains without Monte Carlo: on grids and in closed form."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse, special, stats

LogDensity = Callable[[np.ndarray], np.ndarray]
"""Log output density of many outputs, [N] or [N, d]."""


class Truth(NamedTuple):
    """The divergence of a chain from its posterior, and its output density."""

    divergence: float
    log_q: LogDensity


def walk_truth(
    steps: Iterable[int],
    log_start: LogDensity,
    log_posterior: LogDensity,
    scale: float,
    limits: tuple[float, float],
    width: float = 0.008,
) -> dict[int, Truth]:
    """A random walk on the line with normal increments, by a sparse transition matrix."""
    grid = np.arange(*limits, width)
    q, p = (np.exp(log(grid)) for log in (log_start, log_posterior))
    q, p = q / q.sum(), p / p.sum()
    reach = np.arange(-int(6.5 * scale / width), int(6.5 * scale / width) + 1)
    hop = np.exp(-0.5 * (reach * width / scale) ** 2)
    hop /= hop.sum()
    there = np.arange(grid.size)[:, None] + reach
    inside = (there >= 0) & (there < grid.size)
    log_p = log_posterior(grid)
    ratio = np.minimum(0.0, log_p[np.clip(there, 0, grid.size - 1)] - log_p[:, None])
    move = np.where(inside, np.exp(ratio), 0.0) * hop
    here = np.broadcast_to(np.arange(grid.size)[:, None], there.shape)
    shape = (grid.size, grid.size)
    matrix = sparse.csr_matrix((move[inside], (there[inside], here[inside])), shape=shape)
    stay = 1.0 - move.sum(axis=1)
    found, wanted = {}, set(steps)
    for t in range(max(wanted) + 1):
        if t in wanted:
            log_q = np.log(np.maximum(q, 1e-300) / width)
            gap = np.log(np.maximum(p, 1e-300) / width) - log_q
            found[t] = Truth(
                float(np.sum((p - q) * gap)), lambda x, log_q=log_q: np.interp(x, grid, log_q)
            )
        q = matrix @ q + stay * q
    return found


def radial_truth(
    steps: Iterable[int],
    dimension: int,
    start_std: float,
    std: float,
    mean: float,
    map_to: tuple[float, float],
    num: int = 1600,
) -> dict[int, Truth]:
    r"""Concentric isotropic start and posterior: the distance from the centre is a Markov chain.

    The proposal is $y = A x + B z$ about the centre; $|y|/B$ is noncentral chi. For leapfrog maps
    $|p|^2 - |p'|^2 = (1 - A^2)(|y|^2 - |x|^2)/B^2$, so that acceptance is a function of the radii.
    """
    slope, noise = map_to[0], abs(map_to[1])
    unit = (np.arange(num) + 0.5) / num
    furthest = start_std * (np.sqrt(dimension) + 6)
    radius = furthest * np.sinh(3 * unit) / np.sinh(3)
    width = furthest * 3 * np.cosh(3 * unit) / np.sinh(3) / num
    centre, after = abs(slope) * radius[:, None] / noise, radius[None] / noise
    order = dimension / 2 - 1
    log_bessel = np.log(np.maximum(special.ive(order, centre * after), 1e-320)) + centre * after
    log_move = (
        dimension / 2 * np.log(after)
        - order * np.log(centre)
        - 0.5 * (centre**2 + after**2)
        + log_bessel
        - np.log(noise)
    )
    curvature = (1 - slope**2) / noise**2 - 1 / std**2
    log_accept = 0.5 * curvature * (radius[None] ** 2 - radius[:, None] ** 2)
    move = np.exp(log_move + np.minimum(0.0, log_accept)) * width
    stay = 1.0 - move.sum(axis=1)
    q, p = (stats.chi.pdf(radius, dimension, scale=s) * width for s in (start_std, std))
    log_p = stats.chi.logpdf(radius, dimension, scale=std) + np.log(width)
    found, wanted = {}, set(steps)
    for t in range(max(wanted) + 1):
        if t in wanted:
            ratio = np.log(np.maximum(q, 1e-300)) - log_p
            positive = q > 0
            value = np.sum(q[positive] * ratio[positive]) - np.sum(p * ratio)

            def log_q(x: np.ndarray, ratio: np.ndarray = ratio) -> np.ndarray:
                distance = np.linalg.norm(x - mean, axis=1)
                scaled = (x - mean) / std
                density = stats.norm.logpdf(scaled).sum(axis=1) - dimension * np.log(std)
                return density + np.interp(distance, radius, ratio)

            found[t] = Truth(float(value), log_q)
        q = q @ move + q * stay
    return found


def leapfrog_map(step_size: float, num_leapfrog: int, std: float) -> tuple[float, float]:
    """Position after leapfrog steps in an isotropic Gaussian, as (A, B) of A x + B p."""
    kick = np.array([[1.0, 0.0], [-0.5 * step_size / std**2, 1.0]])
    drift = np.array([[1.0, step_size], [0.0, 1.0]])
    whole = np.linalg.matrix_power(kick @ drift @ kick, num_leapfrog)
    return float(whole[0, 0]), float(whole[0, 1])


def langevin_truth(
    steps: Iterable[int],
    dimension: int,
    start: tuple[float, float],
    mean: float,
    std: float,
    h: float,
) -> dict[int, Truth]:
    """Unadjusted Langevin on an isotropic Gaussian stays Gaussian: independent coordinates."""
    found, wanted = {}, set(steps)
    centre, variance = start[0] - mean, start[1] ** 2
    shrink = 1 - 0.5 * h**2 / std**2
    for t in range(max(wanted) + 1):
        if t in wanted:
            ratio = variance / std**2
            per_coordinate = 0.5 * (ratio + 1 / ratio - 2) + 0.5 * centre**2 * (
                1 / std**2 + 1 / variance
            )

            def log_q(x: np.ndarray, m: float = centre, v: float = variance) -> np.ndarray:
                return stats.norm.logpdf(x, mean + m, np.sqrt(v)).sum(axis=1)

            found[t] = Truth(dimension * per_coordinate, log_q)
        centre, variance = shrink * centre, shrink**2 * variance + h**2
    return found


def independence_truth(
    steps: Iterable[int],
    log_likelihood: LogDensity,
    log_prior: LogDensity,
    num_nodes: int = 800,
    half_width: float = 6.0,
) -> dict[int, Truth]:
    r"""Independence MH in the plane, started from its standard normal proposal, the prior.

    Its density stays $p(x) f_t(L(x))$; on nodes sorted by likelihood every integral is a
    cumulative sum (`aide.experiments.linreg`).
    """
    axis = np.linspace(-half_width, half_width, num_nodes)
    nodes = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_l = log_likelihood(nodes)
    order = np.argsort(log_l)
    prior = np.exp(log_prior(nodes[order]))
    prior, log_l = prior / prior.sum(), log_l[order]
    likelihood = np.exp(log_l - log_l[-1])
    posterior_ratio = likelihood / np.sum(prior * likelihood)
    reject = np.cumsum(prior) - np.cumsum(prior * likelihood) / likelihood
    f, found, wanted = np.ones_like(prior), {}, set(steps)
    for t in range(max(wanted) + 1):
        if t in wanted:
            value = np.sum(prior * (f - posterior_ratio) * (np.log(f) - np.log(posterior_ratio)))

            def log_q(x: np.ndarray, f: np.ndarray = f) -> np.ndarray:
                return log_prior(x) + np.interp(log_likelihood(x), log_l, np.log(f))

            found[t] = Truth(float(value), log_q)
        flow = prior * f
        above = np.cumsum((flow / likelihood)[::-1])[::-1]
        f = np.cumsum(flow) + likelihood * (above - flow / likelihood) + f * reject
    return found
