"""Stored chains of draws: where each draw lies, and how many independent draws they are worth.

`Chains` says in which order runs take the draws. The functions below it take the terms of an
estimate as *sequences*: one array per chain, in the order of the chain. Chains are independent of
each other.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np


class Chains(NamedTuple):
    """The facts about a fixed list of draws that an estimate needs.

    Attributes:
        num_chains: Number of independent chains.
        num_draws: Number of draws per chain.
        effective: Smallest effective sample size of all coordinates; NaN if none has one.
        rhat: Largest split R-hat of all coordinates; NaN if none has one.
        words: A sentence on the order in which the draws were given, if the order had to be
            recognised.
    """

    num_chains: int
    num_draws: int
    effective: float = np.nan
    rhat: float = np.nan
    words: str = ""

    @property
    def size(self) -> int:
        """Number of draws of all chains together."""
        return self.num_chains * self.num_draws

    def places(self, runs: np.ndarray) -> np.ndarray:
        """Return the place of each run's draw: its chain times `num_draws`, plus its position.

        Law: the first N runs are spread evenly over all chains, and within each chain, for every
        N: runs take turns between the chains, and positions follow van der Corput's sequence.
        """
        runs = np.asarray(runs, np.int64)
        chain, turn = runs % self.num_chains, runs // self.num_chains
        return chain * self.num_draws + _spread_order(self.num_draws)[turn]

    def sequences(self, runs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rows of these runs, chain by chain, in the order of the chain's steps."""
        places = self.places(runs)
        order = np.argsort(places, kind="stable")
        chain = places[order] // self.num_draws
        parts = (order[chain == number] for number in range(self.num_chains))
        return tuple(part for part in parts if part.size)


@cache
def _spread_order(num: int) -> np.ndarray:
    """Return 0 to num - 1 in van der Corput's order, in which every prefix is evenly spread.

    The order is that of the reversed bits of each number; reversed numbers of `num` or more are
    left out.
    """
    bits = max(num - 1, 0).bit_length()
    numbers = np.arange(2**bits, dtype=np.int64)
    reverse = np.zeros_like(numbers)
    for bit in range(bits):
        reverse |= ((numbers >> bit) & 1) << (bits - 1 - bit)
    order = reverse[reverse < num]
    order.flags.writeable = False
    return order


class MeanVariance(NamedTuple):
    r"""The variance of the mean of all terms.

    Attributes:
        variance: Estimated variance of the mean.
        freedom: Degrees of freedom $\nu$: the relative variance of `variance` is $2/\nu$.
        effective: Number of independent terms whose mean would have this variance.
    """

    variance: float
    freedom: float
    effective: float


class MeanVariances(NamedTuple):
    """`MeanVariance` of many quantities of the same chains: arrays, one number per quantity."""

    variance: np.ndarray
    freedom: np.ndarray
    effective: np.ndarray


MAX_BIAS_CORRECTION = 0.9
"""Largest share of the variance that the correction for an estimated mean may take to be missing.

A choice: the variance grows tenfold at most. The coverage of the intervals that follow is measured
in `benchmarks/coverage/reference_draws.py`.
"""


ROUNDING = 1e-12
"""Sums of autocovariances that are smaller, relative to the variance, are rounding errors of 0."""


def mean_variance(sequences: Sequence[np.ndarray]) -> MeanVariance:
    r"""Estimate the variance of the mean over all chains, by Geyer's initial monotone sequence.

    $\hat\gamma_k$ are autocovariances about the mean of *all* chains, so that chains which do not
    agree add to every lag. Sums of neighbours $\hat\Gamma_m = \hat\gamma_{2m} + \hat\gamma_{2m+1}$
    are taken as long as they are positive, and made to fall (Geyer, 1992, Statistical Science
    7:473-483). Deviations from an estimated mean make each lag too small by $V/n$, and the sum
    tends to end too early, the less so the more chains $C$ there are: for $L$ lags of $n$ terms it
    is divided by $1 - (1 + 1/C)L/n$. Its relative variance is about $2L/n$, hence $\nu = n/L - 1$.
    Divisor and $\nu$ were chosen by the coverage of intervals at 5 to 200 effective draws
    (`benchmarks/coverage/reference_draws.py`).

    Args:
        sequences: The terms of every chain, in the order of the chain.
    """
    found = mean_variances([part[None] for part in sequences])
    return MeanVariance(*(float(each[0]) for each in found))


def mean_variances(sequences: Sequence[np.ndarray]) -> MeanVariances:
    """Return `mean_variance` of many quantities of the same chains at once.

    Args:
        sequences: The terms of every chain: one row per quantity, in the order of the chain.
    """
    num = sum(part.shape[-1] for part in sequences)
    gamma = autocovariances(sequences)
    pairs = gamma[..., : gamma.shape[-1] // 2 * 2].reshape(len(gamma), -1, 2).sum(axis=2)
    if pairs.shape[1] == 0:
        pairs = gamma[:, :1]
    used = np.logical_and.accumulate(pairs > ROUNDING * gamma[:, :1], axis=1)
    used[:, 0] = True
    monotone = np.where(used, np.minimum.accumulate(pairs, axis=1), 0.0)
    first = gamma[:, 0]
    total = np.maximum(2 * monotone.sum(axis=1) - first, first / num)
    lags = 4 * used.sum(axis=1) - 1
    missing = (1 + 1 / len(sequences)) * lags / num
    variance = total / (1 - np.minimum(missing, MAX_BIAS_CORRECTION)) / num
    moving = (first > 0) & (num > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = first * num / (num - 1) / variance
    return MeanVariances(
        np.where(moving, variance, 0.0),
        np.where(moving, np.maximum(num / lags - 1, 1.0), np.inf),
        np.where(moving, effective, float(num)),
    )


def autocovariances(sequences: Sequence[np.ndarray]) -> np.ndarray:
    r"""$\hat\gamma_0, \hat\gamma_1, \dots$ about the mean of all chains, pooled over them.

    $\hat\gamma_k = \frac1n\sum_c\sum_i (x_{c,i} - \bar x)(x_{c,i+k} - \bar x)$ with $n$ terms in
    all. The last axis is that of a chain's steps, and then that of $k$.
    """
    num = sum(part.shape[-1] for part in sequences)
    mean = sum(part.sum(axis=-1) for part in sequences) / num
    longest = max(part.shape[-1] for part in sequences)
    total = np.zeros((*np.shape(mean), longest))
    for part in sequences:
        length = part.shape[-1]
        size = 2 ** (2 * length - 1).bit_length()
        power = np.abs(np.fft.rfft(part - np.asarray(mean)[..., None], size)) ** 2
        total[..., :length] += np.fft.irfft(power, size)[..., :length]
    return total / num


def split_rhat(sequences: Sequence[np.ndarray]) -> float:
    r"""Return $\hat R$ of ranks between half chains; NaN with fewer than four terms or no spread.

    $\hat R$ is the square root of total over within variance of the rank-normalised half chains;
    the result is the larger of $\hat R$ of the terms and $\hat R$ of their distances from the
    median (Vehtari, Gelman, Simpson, Carpenter & Bürkner, 2021, Bayesian Analysis 16:667-718).
    """
    length = min(part.size for part in sequences) // 2
    if length < 2:
        return np.nan
    halves = np.stack([half for part in sequences for half in (part[:length], part[-length:])])
    folded = np.abs(halves - np.median(halves))
    rhats = [_rhat(_normal_ranks(values)) for values in (halves, folded)]
    return max((rhat for rhat in rhats if not np.isnan(rhat)), default=np.nan)


def _rhat(halves: np.ndarray) -> float:
    """Return the square root of total over within variance; one row per half chain."""
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    if not within > 0:
        return np.nan if np.ptp(halves) == 0 else np.inf
    between = halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((length - 1) / length + between / within))


def _normal_ranks(values: np.ndarray) -> np.ndarray:
    r"""Return the normal scores $\Phi^{-1}((r - 3/8)/(n + 1/4))$ of the ranks $r$ (Blom, 1958)."""
    from scipy import special, stats

    ranks = stats.rankdata(values.ravel()).reshape(values.shape)
    return special.ndtri((ranks - 0.375) / (values.size + 0.25))
