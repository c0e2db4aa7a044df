r"""L-lag couplings of random-walk Metropolis (Biswas, Jacob & Vanetti 2019): a baseline.

Two chains from the same start, one L steps ahead, are moved by reflection-maximal coupled proposals
and a common uniform until they meet at time $\tau$. Then
$TV(q_t, \pi) \le E[\max\{0, \lceil(\tau - L - t)/L\rceil\}]$.
"""

from collections.abc import Callable

import numpy as np

Density = Callable[[np.ndarray], np.ndarray]


def meeting_times(
    rng: np.random.Generator,
    start: Callable[[int], np.ndarray],
    log_density: Density,
    scale: float,
    lag: int,
    num: int,
    longest: int = 100_000,
) -> tuple[np.ndarray, int]:
    r"""$\tau$ of `num` independent pairs, and how often the density was evaluated in all.

    Args:
        rng: Random numbers.
        start: Draws so many states, [n, d].
        log_density: Of many states.
        scale: Standard deviation of the increments.
        lag: L.
        num: Pairs.
        longest: Give up after so many steps.
    """
    x, y = start(num), start(num)
    count = 0
    for _ in range(lag):
        proposal = x + scale * rng.normal(size=x.shape)
        accept = np.log(rng.uniform(size=len(x))) < log_density(proposal) - log_density(x)
        x = np.where(accept[:, None], proposal, x)
        count += len(x)
    times, alive = np.zeros(num, int), np.arange(num)
    for t in range(lag + 1, longest):
        x_new, y_new = _propose(rng, x, y, scale)
        log_u = np.log(rng.uniform(size=len(x)))
        for state, proposal in ((x, x_new), (y, y_new)):
            accept = log_u < log_density(proposal) - log_density(state)
            state[accept] = proposal[accept]
        count += 2 * len(x)
        met = np.all(x == y, axis=1)
        times[alive[met]] = t
        alive, x, y = alive[~met], x[~met], y[~met]
        if not len(alive):
            return times, count
    raise RuntimeError(f"{len(alive)} of {num} pairs had not met after {longest} steps.")


def _propose(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    z = (x - y) / scale
    direction = z / np.linalg.norm(z, axis=1, keepdims=True)
    noise = rng.normal(size=x.shape)
    gap = 0.5 * np.sum(noise**2 - (noise + z) ** 2, axis=1)
    same = np.log(rng.uniform(size=len(x))) < gap
    mirrored = noise - 2 * np.sum(direction * noise, axis=1, keepdims=True) * direction
    x_new = x + scale * noise
    return x_new, np.where(same[:, None], x_new, y + scale * mirrored)


def total_variation_bounds(times: np.ndarray, lag: int, steps: list[int]) -> list[tuple]:
    """The bound and its standard error after each number of steps."""
    found = []
    for t in steps:
        terms = np.maximum(0, np.ceil((times - lag - t) / lag))
        found.append((float(terms.mean()), float(terms.std() / np.sqrt(len(terms)))))
    return found
