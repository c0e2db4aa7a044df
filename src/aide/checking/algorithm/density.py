r"""Laws 1 and 5: does $\xi$ estimate the density of the outputs, and has it the claimed mass?

With $f$ a distribution of known density on a region $S$ (see `region`) and $0 \le \varphi \le 1$:

- law 1: $E_{x\sim f}[\xi\,\varphi(x)/f(x)] \le Z\,E_{simulate}[\varphi(x) 1_S(x)]$, $\xi$ from
  `regenerate`, with equality if every trace of the algorithm has a chance there;
- law 5: $E_{simulate}[f(x)\,\varphi(x)/\xi] \le E_{x\sim f}[\varphi(x)]/Z$, with equality if the
  outputs' density is positive on $S$ and $\xi > 0$.

Both compare a non-negative term with one between 0 and 1, so a bet on "too large" is exact at any
tail (see `betting`). A $\xi$ that is too large somewhere breaks the first, one that is too small
the second. Neither needs anything of the algorithm; a mean that is too small proves nothing.

The outputs' real numbers must have a density. A number that came twice has none: such runs are left
out of the gains of law 5, and so is its largest gain, which may be an atom that came once. Leaving
out gains can only lower the wealth.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from aide.checking.algorithm.evidence import Evidence
from aide.checking.algorithm.features import NUM_FEATURES
from aide.checking.betting import log_average, log_wealths, wealth_p_value
from aide.reporting.numbers import factor

MIN_INSIDE = 0.01
"""Share of the outputs that the region must hold."""
FAR_BELOW = -4.5
"""Standard errors below the law from which on a p-value of 1 says nothing for it."""
MIN_EFFECTIVE = 30.0
"""Effective number of weights below which their mean has not been seen."""
LARGE = 40.0
"""Log of a wealth that leaves no question open: then the function 1 says all."""
PRECISION, FARTHEST = 0.01, 1e4
"""Of the unknown log Z, and how far from a first guess it is looked for."""


class DensityRuns(NamedTuple):
    r"""Runs of the region and of the algorithm, in equal numbers.

    Attributes:
        log_weight: $\log\xi/f$ at draws of the region.
        log_inverse: $\log f/\xi$ at outputs of the algorithm, with its own trace.
        is_atom: Whether a real number of the output came twice.
        at_region: Columns with values in [0, 1] of the draws of the region.
        at_outputs: The same of the outputs.
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
        """Of every column, with gains multiplied by a factor."""
        return log_wealths(self.log_gains + log_factor, self.losses)


def density_evidence(runs: DensityRuns, log_z: float | None, variant: str) -> list[Evidence]:
    r"""Judge both laws; where $Z$ is unknown, whether they allow one and the same $Z$."""
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
    """Why the laws could not be tested; without a stated $Z$ law 5 says nothing of its own."""
    laws = (1,) if log_z is None else (1, 5)
    return [Evidence(law, variant, None, words, num_runs) for law in laws]


def _judge(law: int, bet: Bet, log_factor: float, words: str, variant: str) -> Evidence:
    """The average wealth over all functions; words for the plainest function that says as much."""
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
    crossing neither is below its value at the farther end; outside one of them is above.
    """
    columns = 2 * weights.losses.shape[1]

    def wealth(bet: Bet, log_factor: float) -> float:
        return float(np.logaddexp.reduce(bet.log_wealths(log_factor)) - np.log(columns))

    centre = float(_log_mean(weights.log_gains[:, :1])[0] - np.log(weights.losses[:, 0].mean()))
    if np.logaddexp(wealth(weights, -centre), wealth(inverse, centre)) <= 0:
        return 0.0  # some Z is not even suspicious

    def is_below(log_z: float) -> bool:
        """Whether the crossing lies above this Z."""
        return wealth(weights, -log_z) > wealth(inverse, log_z)

    reach = 1.0
    while not is_below(centre - reach) or is_below(centre + reach):
        reach *= 4
        if reach > FARTHEST:
            return 0.0
    low, high = centre - reach, centre + reach
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return max(wealth(weights, -high), wealth(inverse, low))


def _doubt(log_weight: np.ndarray, inside: np.ndarray, is_scaled: bool) -> str | None:
    """Why the mean weight, though not too large, does not speak for law 1."""
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
    """Where a function looks, in words."""
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
