r"""Normalised ranks of true values among draws, uniform if the draws are from the right posterior.

Among $L$ draws of $p(x \mid y)$ that are independent of each other and, given $y$, of the truth
$x$, the rank $R$ of a function $f(x)$ is uniform on $0, …, L$ (Talts et al., 2018). Ties are broken
at random, and $(R + U)/(L + 1)$ with a uniform $U$ is uniform on (0, 1) whatever $L$ is, so that
data sets with different numbers of draws share one band.
"""

from collections.abc import Sequence

import jax
import numpy as np

from aide._core.chains import mean_variance
from aide._core.types import Value
from aide.algorithms.draw_arrays import as_chains, columns_of, flat_draws, in_order


def normalised_ranks(
    truth: np.ndarray, draws: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Ranks in (0, 1), shape (data set, function).

    Args:
        truth: Values at the true parameters, shape (data set, function).
        draws: Values at the draws of all data sets, one after another, shape (draw, function).
        sizes: The number of draws of each data set.
        rng: Breaks ties.
    """
    owner = np.repeat(np.arange(sizes.size), sizes)
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    below = np.add.reduceat((draws < truth[owner]).astype(np.int64), begins, axis=0)
    equal = np.add.reduceat((draws == truth[owner]).astype(np.int64), begins, axis=0)
    ranks = below + rng.integers(0, equal + 1)
    return (ranks + rng.random(ranks.shape)) / (sizes[:, None] + 1)


def thinned(draws: Value, has_chains: bool) -> tuple[Value, np.ndarray]:
    """All draws in one line, and the places of those to rank: as many as all are worth.

    Places are evenly spaced in the chains. Ranks among autocorrelated draws pile up at both ends,
    as if the fit were too narrow. The effective size is the smallest of all coordinates.
    """
    arranged, (num_chains, num_draws) = as_chains(draws, has_chains)
    arranged, _ = in_order(arranged)
    size = num_chains * num_draws
    moving = [column for column in np.moveaxis(columns_of(arranged), 2, 0) if np.ptp(column) > 0]
    effective = min([mean_variance(list(column)).effective for column in moving] or [size])
    chosen = max(int(min(effective, size)), 1)
    return flat_draws(arranged), ((np.arange(chosen) + 0.5) * size / chosen).astype(int)


def stacked(values: Sequence[Value]) -> Value:
    """Trees of draws one after another."""
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(a) for a in leaves]), *values)
