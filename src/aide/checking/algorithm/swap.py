r"""Law 2, swap symmetry, as a calibration test of signs.

Let $(x, \xi_1)$ come from `simulate`, $\xi_2$ from `regenerate` at that $x$, and
$l = \log\xi_2 - \log\xi_1$. The law of $(x, u_1, u_2)$ is $q(x)\,q(u_1|x)\,r(u_2;x)$; exchanging
the traces multiplies it by $\xi_2/\xi_1$. So given $|l|$ *and* $x$, the sign of $l$ is positive
with probability $1/(1 + e^{|l|})$, whatever the algorithm. Runs are put into cells by $|l|$ and by
features of $x$; in each the number of positive signs is judged. Nothing is estimated, so the
p-values hold at every sample size and every tail of $l$ (see `orders`).
"""

from collections.abc import Iterator

import numpy as np

from aide._core.lazy import special
from aide.checking.algorithm.evidence import Evidence
from aide.checking.orders import order_p_values, sign_p_value

ROUNDING = 1e-9
"""Below this, |l| is rounding; atoms of l further apart than this are different atoms."""
MOST_BINS = 8
MIN_INFORMATION = 10.0
"""Variance of the number of positive signs that a cell should have."""


def swap_evidence(log_ratio: np.ndarray, features: np.ndarray, variant: str) -> Evidence:
    """Judge the signs of l in all cells; `features` has one column per feature of x."""
    num = log_ratio.size
    moved = np.abs(log_ratio) > ROUNDING
    if not moved.any():
        words = "the output determines the trace: both scores are equal in all runs"
        return Evidence(3, variant, 1.0, words, num)
    log_ratio, features = log_ratio[moved], features[moved]
    # Atoms of l must not be split between bins by rounding.
    size = np.round(np.abs(log_ratio), 9)
    chance, positive = special.expit(-size), log_ratio > 0
    judged = []
    for cell in _cells(size, chance * (1 - chance), features):
        judged.append((sign_p_value(positive[cell], chance[cell]), cell))
    smallest, cell = min(judged, key=lambda pair: pair[0])
    seen, expected = positive[cell].mean(), chance[cell].mean()
    words = (
        f"of {cell.sum():,} runs with |log ratio| near {np.median(size[cell]):.2g}, "
        f"{seen:.1%} were positive; a correct pair has {expected:.1%}"
    )
    return Evidence(2, variant, min(1.0, smallest * len(judged)), words, num)


def exchange_evidence(log_ratio: np.ndarray, variant: str) -> Evidence:
    r"""Law 2 in one number: $E[(1-s)(2s-1)] = 0$ with $s = \xi_1/(\xi_1 + \xi_2)$."""
    own = special.expit(-log_ratio)
    terms, swapped = (1 - own) * (2 * own - 1), own * (1 - 2 * own)
    words = (
        f"traces and their replacements exchange with a bias of {terms.mean():+.3g}, should be 0"
    )
    (p_value,) = order_p_values(-log_ratio, terms[:, None], swapped[:, None])
    return Evidence(2, variant, float(p_value), words, terms.size)


def self_evidence(log_ratio: np.ndarray, variant: str) -> Evidence:
    r"""Law 4: AIDE of the algorithm against itself, the mean of $-l$, is no less than 0.

    Given $|l|$ the mean of $-l$ is $|l|\tanh(|l|/2) \ge 0$, and the sign is all that is random.
    """
    value, num = -log_ratio, log_ratio.size
    if np.isinf(value).any():
        words = "AIDE of the algorithm against itself is +inf, an upper bound on 0"
        return Evidence(4, variant, 1.0, words, num)
    error = value.std(ddof=1) / np.sqrt(num)
    found = f"{value.mean():.3g} ± {error:.2g}"
    words = f"AIDE of the algorithm against itself is {found}; it should not be below 0"
    if value.mean() >= 0:
        return Evidence(4, variant, 1.0, words, num)
    centre = np.abs(value) * np.tanh(np.abs(value) / 2)
    terms, swapped = (value - centre)[:, None], (-value - centre)[:, None]
    (p_value,) = order_p_values(value, terms, swapped)
    return Evidence(4, variant, float(p_value), words, num)


def _cells(size: np.ndarray, variance: np.ndarray, features: np.ndarray) -> Iterator[np.ndarray]:
    everything = np.ones(size.size, bool)
    yield from _bins(size, variance, everything, MOST_BINS)
    for column in features.T:
        upper = column > np.median(column)
        if 0 < upper.sum() < upper.size:
            for half in (upper, ~upper):
                yield from _bins(size, variance, half, MOST_BINS // 2)


def _bins(
    size: np.ndarray, variance: np.ndarray, chosen: np.ndarray, most: int
) -> Iterator[np.ndarray]:
    """Bins of |l| with equal shares of the variance of the number of positive signs."""
    atoms, atom = np.unique(size, return_inverse=True)
    each = np.bincount(atom, variance * chosen, atoms.size)
    total = each.sum()
    num = int(np.clip(total // MIN_INFORMATION, 1, most))
    share = (np.cumsum(each) - each / 2) / total if total > 0 else np.zeros(atoms.size)
    which = np.minimum((share * num).astype(int), num - 1)[atom]
    for index in range(num):
        cell = chosen & (which == index)
        if cell.any():
            yield cell
