"""Small versions of the diagnostics that people use, with their usual thresholds.

R-hat and effective sample size stand on NumPyro's; `tests/test_peers.py` compares both with ArviZ.
"""

from collections.abc import Callable

import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from scipy import special, stats
from scipy.spatial.distance import pdist, squareform

NUM_BINS = 16
"""Bins of a histogram of ranks; the number of draws plus one must be a multiple."""
NUM_SIGNS = 499
"""Bootstrap repetitions of the kernel Stein discrepancy."""


def rank_rhat(chains: np.ndarray) -> float:
    """Largest rank-normalised split R-hat, of values and of their distances from the median.

    Vehtari et al., 2021, Bayesian Analysis 16:667-718. The shape is (chains, draws, coordinates).
    """
    folded = np.abs(chains - np.median(chains, axis=(0, 1)))
    return max(
        float(split_gelman_rubin(_normal_scores(part[..., index])))
        for part in (chains, folded)
        for index in range(chains.shape[2])
    )


def bulk_ess(chains: np.ndarray) -> float:
    """Smallest bulk effective sample size: that of normal scores, from chains split in halves."""
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    columns = range(chains.shape[2])
    return min(float(effective_sample_size(_normal_scores(halves[..., i]))) for i in columns)


def stein_p_value(draws: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> float:
    """P-value of the kernel Stein discrepancy of independent draws.

    The kernel is the inverse multiquadric (1 + |x - y|²/w)^(-1/2), w the median squared distance;
    p-values come from random signs (Liu, Lee & Jordan, 2016, ICML). `scores` are gradients of the
    log density at `draws`.
    """
    difference = draws[:, None] - draws[None]
    width = np.median(pdist(draws, "sqeuclidean"))
    squares = squareform(pdist(draws, "sqeuclidean")) / width
    base = 1 + squares
    slope = -(base**-1.5) / width  # times the difference: the gradient in the first argument
    cross = np.einsum("ijk,ijk->ij", difference, scores[None] - scores[:, None])
    trace = draws.shape[1] * base**-1.5 / width - 3 * squares * base**-2.5 / width
    stein = (scores @ scores.T) * base**-0.5 + slope * cross + trace
    np.fill_diagonal(stein, 0.0)
    signs = rng.choice([-1.0, 1.0], size=(NUM_SIGNS, len(draws)))
    repeated = np.einsum("ri,ri->r", signs @ stein, signs)
    return float((1 + np.sum(repeated >= stein.sum())) / (1 + NUM_SIGNS))


def rank_p_value(truth: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> float:
    """P-value of simulation-based calibration: ranks of truths among their draws are uniform.

    Talts et al., 2018. `truth` has the shape (data sets, quantities), `draws` one axis more, in the
    middle; the quantities share the level (Bonferroni). Ties are broken at random.
    """
    below = (draws < truth[:, None]).sum(axis=1)
    equal = (draws == truth[:, None]).sum(axis=1)
    ranks = below + rng.integers(0, equal + 1)
    values = [_uniform(ranks[:, index], draws.shape[1]) for index in range(truth.shape[1])]
    return min(1.0, len(values) * min(values))


def tarp_p_value(truth: np.ndarray, draws: np.ndarray, points: np.ndarray) -> float:
    """P-value of TARP: a ball about a random point holds the truth as often as it holds draws.

    Lemos et al., 2023, ICML. One reference point for each data set.
    """
    far = np.linalg.norm(truth - points, axis=-1)
    ranks = (np.linalg.norm(draws - points[:, None], axis=-1) < far[:, None]).sum(axis=1)
    return _uniform(ranks, draws.shape[1])


def _uniform(ranks: np.ndarray, num_draws: int) -> float:
    """P-value of Pearson's test that ranks from 0 to `num_draws` are uniform."""
    counts = np.bincount(ranks * NUM_BINS // (num_draws + 1), minlength=NUM_BINS)
    return float(stats.chisquare(counts).pvalue)


def _normal_scores(values: np.ndarray) -> np.ndarray:
    ranks = stats.rankdata(values).reshape(values.shape)
    return special.ndtri((ranks - 0.375) / (values.size + 0.25))


Complaint = Callable[[float], bool]
COMPLAINTS: dict[str, Complaint] = {
    "R-hat": lambda value: value > 1.01,
    "ESS": lambda value: value < 400,
    "k-hat": lambda value: value > 0.7,
    "p-value": lambda value: value < 0.05,
}
"""When a diagnostic is usually taken to complain."""
