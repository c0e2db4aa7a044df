r"""Laws 1 to 5 on the runs of a check, and the outcome of a test (`Evidence`).

**Laws 2 to 4, exchange of traces.** Let $(x, \xi_1)$ come from `simulate`, $\xi_2$ from
`regenerate` at that $x$, and $l = \log\xi_2 - \log\xi_1$. The law of $(x, u_1, u_2)$ is
$q(x)\,q(u_1|x)\,r(u_2;x)$; exchanging the traces multiplies it by $\xi_2/\xi_1$. So given $|l|$
*and* $x$, the sign of $l$ is positive with probability $1/(1 + e^{|l|})$, for every algorithm.
Runs are put into cells by $|l|$ and by features of $x$; in each cell the number of positive signs
is judged. Nothing is estimated, so the p-values hold at every sample size and every tail of $l$
(see `aide._core.exact_tests`).

**Laws 1 and 5, the density and its mass.** With $f$ a distribution of known density on a region $S$
(`aide.checking.algorithm.region`) and $0 \le \varphi \le 1$:

- law 1: $E_{x\sim f}[\xi\,\varphi(x)/f(x)] \le Z\,E_{simulate}[\varphi(x) 1_S(x)]$, $\xi$ from
  `regenerate`, with equality if every trace of the algorithm has a chance there;
- law 5: $E_{simulate}[f(x)\,\varphi(x)/\xi] \le E_{x\sim f}[\varphi(x)]/Z$, with equality if the
  outputs' density is positive on $S$ and $\xi > 0$.

Both compare a non-negative term with one between 0 and 1, so a bet on "too large" is exact at any
tail (`aide._core.exact_tests`). A $\xi$ that is too large somewhere breaks law 1, one that is too
small law 5. Neither law has conditions on the algorithm; a mean that is too small proves nothing.

The outputs' real numbers must have a density. A number that occurs twice has none: such runs are
left out of the gains of law 5, and so is its largest gain, which may be an atom that occurred once.
Leaving out gains can only lower the wealth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aide._core.exact_tests import (
    log_average,
    log_wealths,
    order_p_values,
    sign_p_value,
    wealth_p_value,
)
from aide._core.numerics import special
from aide.checking.algorithm.region import NUM_FEATURES
from aide.reporting.numbers import factor

ROUNDING = 1e-9
"""Nats below which |l| is rounding, and within which two values of l are one atom."""
MOST_BINS = 8
"""Largest number of bins of |l|; within each half of a feature, half this number."""
MIN_INFORMATION = 10.0
"""Least variance of the number of positive signs in a bin of |l|: fewer bins are made for less."""
MIN_INSIDE = 0.01
"""Smallest share of the outputs that the region must hold, for laws 1 and 5."""
FAR_BELOW = -4.5
"""Standard errors below the law beyond which a p-value of 1 is no support for law 1."""
MIN_EFFECTIVE = 30.0
"""Least effective number of weights for a statement about their mean."""
LARGE = 40.0
"""Log wealth above which a failure is described by the function 1, the simplest."""
LOG_Z_PRECISION = 0.01
"""Precision in nats of an unknown log Z."""
FARTHEST_LOG_Z = 1e4
"""Largest distance in nats of an unknown log Z from the first guess."""


@dataclass(frozen=True)
class Evidence:
    r"""The outcome of one test.

    Attributes:
        law: Number of the law.
        variant: The (shrunken) algorithm that was run.
        p_value: Probability of so large a deviation if the law holds, over all cells and functions
            of this test together; exact, or an upper bound, at every sample size and every tail.
            `None` if the test could not be made.
        words: A sentence on the result.
        num_runs: Runs of `simulate` that were tested.
        log_mass: Log of the mass of $\xi$ on a region, relative to its claim (law 1).
        doubt: The reason why a large p-value is no support for the law; `None` without such.
    """

    law: int
    variant: str
    p_value: float | None
    words: str
    num_runs: int
    log_mass: float | None = None
    doubt: str | None = None


def swap_evidence(log_ratio: np.ndarray, features: np.ndarray, variant: str) -> Evidence:
    """Test the signs of l in all cells; `features` has one column per feature of x."""
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

    Given $|l|$, the mean of $-l$ is $|l|\tanh(|l|/2) \ge 0$; only the sign is random.
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


class DensityRuns(NamedTuple):
    r"""Runs of the region and of the algorithm, in equal numbers.

    Attributes:
        log_weight: $\log\xi/f$ at draws of the region.
        log_inverse: $\log f/\xi$ at outputs of the algorithm, with its own trace.
        is_atom: Whether a real number of the output occurred twice.
        at_region: Columns of features with values in [0, 1], at the draws of the region.
        at_outputs: Columns of features at the outputs.
    """

    log_weight: np.ndarray
    log_inverse: np.ndarray
    is_atom: np.ndarray
    at_region: np.ndarray
    at_outputs: np.ndarray


class Bet(NamedTuple):
    r"""Gains (as logs, $Z = 1$) and losses of one law, one column per function $\varphi$."""

    log_gains: np.ndarray
    losses: np.ndarray

    def log_wealths(self, log_factor: float) -> np.ndarray:
        """Log wealths of all columns, with gains multiplied by a factor."""
        return log_wealths(self.log_gains + log_factor, self.losses)


def density_evidence(runs: DensityRuns, log_z: float | None, variant: str) -> list[Evidence]:
    r"""Test both laws; where $Z$ is unknown, whether one $Z$ satisfies both."""
    num = runs.log_weight.size
    inside = runs.log_inverse > -np.inf
    if inside.mean() < MIN_INSIDE:
        words = f"the region of typical outputs holds only {inside.mean():.1%} of the outputs"
        return untested(words, log_z, variant, num)
    seen, drawn = _functions(runs.at_outputs), _functions(runs.at_region)
    log_inverse = np.where(runs.is_atom, -np.inf, runs.log_inverse)
    log_inverse[np.argmax(log_inverse)] = -np.inf
    weights = Bet(runs.log_weight[:, None] + _log(drawn), inside[:, None] * seen)
    inverse = Bet(log_inverse[:, None] + _log(seen), drawn)
    doubt = _doubt(runs.log_weight - (log_z or 0.0), inside, log_z is not None)
    if log_z is None:
        words = "xi has the shape of the output density for some Z, which is unknown"
        p_value = wealth_p_value(_least_wealth(weights, inverse))
        return [Evidence(1, variant, p_value, words, num, doubt=doubt)]
    law_1 = "xi integrates to {} times the share of outputs in a typical region"
    first = _judge(1, weights, -log_z, law_1, variant)
    law_5 = "E[h/xi] is {}; a correct density gives 1"
    log_mass = float(_log_mean(runs.log_weight) - log_z - np.log(inside.mean()))
    first = replace(first, doubt=doubt, log_mass=log_mass)
    return [first, _judge(5, inverse, log_z, law_5, variant)]


def untested(words: str, log_z: float | None, variant: str, num_runs: int) -> list[Evidence]:
    """The reason why laws were not tested; without a stated $Z$ law 5 adds nothing to law 1."""
    laws = (1,) if log_z is None else (1, 5)
    return [Evidence(law, variant, None, words, num_runs) for law in laws]


def _judge(law: int, bet: Bet, log_factor: float, words: str, variant: str) -> Evidence:
    """Test the average wealth over all functions; describe the simplest one that shows as much."""
    found = bet.log_wealths(log_factor)
    means = _log_mean(bet.log_gains + log_factor) - _log(bet.losses.mean(axis=0))
    best = int(np.argmax(found))
    best = 0 if found[0] > min(found[best] - np.log(100), LARGE) else best
    words = _where(best) + words.format(factor(means[best]))
    p_value = wealth_p_value(log_average(found))
    return Evidence(law, variant, p_value, words, len(bet.losses))


def _least_wealth(weights: Bet, inverse: Bet) -> float:
    r"""A lower bound on the least average wealth over all $Z$, in logs.

    With growing $Z$ law 1's wealth falls and law 5's rises. Between $Z_1 \le Z_2$ around their
    crossing neither wealth is below its value at the farther end; outside, one of them is above.
    """
    columns = 2 * weights.losses.shape[1]

    def wealth(bet: Bet, log_factor: float) -> float:
        return float(np.logaddexp.reduce(bet.log_wealths(log_factor)) - np.log(columns))

    centre = float(_log_mean(weights.log_gains[:, :1])[0] - np.log(weights.losses[:, 0].mean()))
    if np.logaddexp(wealth(weights, -centre), wealth(inverse, centre)) <= 0:
        return 0.0  # some Z satisfies both laws

    def is_below(log_z: float) -> bool:
        """Whether the crossing lies above this Z."""
        return wealth(weights, -log_z) > wealth(inverse, log_z)

    reach = 1.0
    while not is_below(centre - reach) or is_below(centre + reach):
        reach *= 4
        if reach > FARTHEST_LOG_Z:
            return 0.0
    low, high = centre - reach, centre + reach
    while high - low > LOG_Z_PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return max(wealth(weights, -high), wealth(inverse, low))


def _doubt(log_weight: np.ndarray, inside: np.ndarray, is_scaled: bool) -> str | None:
    """The reason why a mean weight that is not too large is no support for law 1, or `None`."""
    if log_weight.max() == -np.inf:
        return "xi is 0 at every draw of the region of typical outputs"
    weights = np.exp(log_weight - log_weight.max())
    effective = weights.sum() ** 2 / (weights**2).sum()
    if effective < MIN_EFFECTIVE:
        return f"the integral of xi rests on {effective:.0f} of {weights.size:,} runs"
    if not is_scaled:
        return None
    weights = np.exp(np.minimum(log_weight, 300.0))
    error = np.sqrt((weights.var() + inside.var()) / weights.size)
    if weights.mean() - inside.mean() >= FAR_BELOW * error - 1e-6:
        return None
    return (
        f"xi integrates to only {weights.mean() / inside.mean():.3g} times the share of outputs: "
        "it is too small somewhere, or its rare large values were not seen"
    )


def _functions(features: np.ndarray) -> np.ndarray:
    """1, the features, and 1 minus the features."""
    return np.concatenate([np.ones((len(features), 1)), features, 1 - features], axis=1)


def _where(column: int) -> str:
    """The outputs for which a function is large, in words."""
    if column == 0:
        return ""
    num = (column - 1) % (NUM_FEATURES + 1) + 1
    what = f"projection {num}" if num <= NUM_FEATURES else "the distance from the centre"
    return f"where {what} of the output is {'high' if column <= NUM_FEATURES + 1 else 'low'}, "


def _log_mean(log_terms: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(log_terms, axis=0) - np.log(len(log_terms))


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)
