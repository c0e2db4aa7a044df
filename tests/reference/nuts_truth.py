r"""The output density of NUTS on a round Gaussian, by BlackJAX's chains run forwards.

Step and start are the same in all directions, so that $\log q_T(x)/p(x)$ is a function of $|x|$:
very many chains, and a fine histogram of their radii, give it.
"""

from collections.abc import Sequence
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from reference.chain_truth import Truth

BINS = 200
BATCH = 2**14


def radii(
    key: Any, step_size: float, size: int, spread: float, steps: Sequence[int], num: int
) -> np.ndarray:
    """Radii of chains from N(0, spread^2) after each number of steps, [T, num]."""
    with jax.enable_x64(True):
        kernel: Any = blackjax.nuts(lambda x: -0.5 * jnp.sum(x**2), step_size, np.ones(size))

        def chain(key: Any) -> Any:
            key_start, key_steps = jax.random.split(key)
            first = kernel.init(spread * jax.random.normal(key_start, (size,), float))

            def step(state: Any, key: Any) -> Any:
                state, _ = kernel.step(key, state)
                return state, jnp.linalg.norm(state.position)

            return jax.lax.scan(step, first, jax.random.split(key_steps, max(steps)))[1]

        run = jax.jit(lambda key: jax.vmap(chain)(jax.random.split(key, BATCH)))
        keys = jax.random.split(key, -(-num // BATCH))
        found = np.concatenate([np.asarray(run(k)) for k in keys])[:num]
        return found.T[np.asarray(steps) - 1]


def radial_nuts_truth(
    key: Any,
    step_size: float,
    white: np.ndarray,
    log_p: Any,
    spread: float,
    steps: Sequence[int],
    num: int,
) -> dict[int, Truth]:
    r"""Truths of NUTS with the metric $\Sigma$ on $N(0, \Sigma)$ from $N(0, s^2\Sigma)$.

    Args:
        key: A JAX key.
        step_size: That of the kernel.
        white: $L^{-1}$ with $\Sigma = L L^\top$.
        log_p: The exact log density at rows of points.
        spread: $s$.
        steps: Numbers of steps.
        num: Chains.
    """
    size, truths = len(white), {}
    exact = stats.chi(size)
    for number, found in zip(steps, radii(key, step_size, size, spread, steps, num), strict=True):
        p_quantiles = exact.ppf((np.arange(BINS) + 0.5) / BINS)
        tail = np.geomspace(1.0 / BINS, 200.0 / num, BINS // 4)
        levels = np.concatenate([np.arange(1, BINS) / BINS, tail, 1.0 - tail])
        q_quantiles = np.quantile(found, np.sort(levels))
        edges = np.unique(np.concatenate([[0.0], p_quantiles, q_quantiles, [np.inf]]))
        counts = np.histogram(found, edges)[0]
        edges = np.delete(edges, 1 + np.flatnonzero(counts[:-1] < 20))  # empty ones join the next
        counts = np.histogram(found, edges)[0]
        log_q, log_gold = np.log(counts / num), np.log(exact.sf(edges[:-1]) - exact.sf(edges[1:]))
        ends = np.clip(edges, found.min(), found.max())
        middle = 0.5 * (ends[1:] + ends[:-1])
        # Densities in the middle, not masses: in wide bins far out p falls by many nats.
        ratio = log_q - np.log(np.diff(ends)) - stats.chi.logpdf(middle, size)
        at_found = np.interp(found, middle, ratio).mean()
        divergence = float(at_found - np.sum(np.exp(log_gold) * ratio))

        def log_density(
            x: np.ndarray, middle: np.ndarray = middle, ratio: np.ndarray = ratio
        ) -> np.ndarray:
            return log_p(x) + np.interp(np.linalg.norm(x @ white.T, axis=1), middle, ratio)

        truths[number] = Truth(divergence, log_density)
    return truths
