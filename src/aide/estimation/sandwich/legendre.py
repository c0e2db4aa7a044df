r"""From log odds to terms of a lower bound.

For every $f$ and $a > 0$ fixed beforehand, $KL(p\|q) \ge E_p f - E_q e^f/a - \log a + 1$ (Nguyen,
Wainwright & Jordan, 2010, IEEE Trans. Inf. Theory 56:5847-5861). With $f$ in one direction and $-f$
in the other, and the constants absorbed into $f_1 = f - \log a$ and $g = -f - \log b$,

$$D \ge E_p[f_1 + 1 - e^{g}] + E_q[g + 1 - e^{f_1}],$$

a sum of two means, tight for $f = \log(p/q)$ and $a = b = 1$. $f$ is clipped: that costs tightness,
never validity, and keeps single runs from deciding the bound.
"""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import special
from aide.estimation.sandwich.balance import Integrands, LogRatio, best_coefficient, combine

CLIPS = (0.3, 1.0, 2.0, 3.5, 5.0, 6.5, 8.0, 11.0, 15.0, 25.0, 50.0, 100.0, 200.0)
"""Limits of $|f|$ in nats that `choose_bound` tries, from small differences to hundreds."""
WIDE_CLIP = 3.0
"""Nats from which on a limit of $|f|$ is wide: smaller ones are chosen for small divergences."""
SATURATED = 0.05
"""Share of the outputs at a wide limit above which the number of runs limits the bound."""

Pair = tuple[np.ndarray, np.ndarray]
"""Numbers at the gold draws, and at the target draws."""
Parts = tuple[float, float]
"""Numbers about KL(gold‖target), and about KL(target‖gold)."""


class LimitGoal(NamedTuple):
    """The lower limit that is wanted.

    Attributes:
        nums: Numbers of gold and of target runs, or their effective numbers if they depend on each
            other.
        level: Probability with which the lower limit is to hold.
    """

    nums: tuple[float, float]
    level: float


class Bound(NamedTuple):
    r"""All that turns log odds into terms, fixed before the runs of the terms are looked at.

    While a bound is being chosen, the attributes are columns with a row for each candidate.

    Attributes:
        low: The least value of $f$.
        high: The largest value of $f$.
        log_a: $\log a$.
        log_b: $\log b$.
        coefficient: Coefficient of the control variate (`balance`).
        allowance: Nats that rare low terms, which no run has shown, may take away from the mean.
        expected: The lower limit to be expected, by which candidates are compared.
        part_allowances: The allowance of each direction alone.
    """

    low: float | np.ndarray
    high: float | np.ndarray
    log_a: float | np.ndarray
    log_b: float | np.ndarray
    coefficient: float | np.ndarray
    allowance: float | np.ndarray
    expected: float | np.ndarray
    part_allowances: Parts = (0.0, 0.0)

    def halves(self, logits: Pair) -> tuple[Pair, Pair]:
        """Terms of KL(gold‖target) and of KL(target‖gold) at gold and target draws, unbalanced."""
        at_gold, at_target = (np.clip(part, self.low, self.high) for part in logits)
        forward = at_gold - self.log_a + 1, -np.exp(at_target - self.log_a)
        backward = -np.exp(-at_gold - self.log_b), -at_target - self.log_b + 1
        return forward, backward

    def integrands(self, logits: Pair) -> Integrands:
        """$u$ and $v$ at gold and at target draws."""
        parts = []
        for logit in logits:
            f = np.clip(logit, self.low, self.high)
            forward, backward = f - self.log_a, -f - self.log_b
            parts += [forward + 1 - np.exp(backward), backward + 1 - np.exp(forward)]
        return Integrands(*parts)

    def terms(self, logits: Pair, ratio: LogRatio | None) -> Pair:
        """Terms whose means add up to at most the divergence."""
        return combine(self.integrands(logits), ratio, self.coefficient)

    def is_saturated(self, logits: Pair) -> bool:
        """Whether a wide limit of $f$, chosen for want of runs, cuts off many outputs."""
        above = np.mean(logits[0] >= self.high) if self.high >= WIDE_CLIP else 0.0
        below = np.mean(logits[1] <= self.low) if self.low <= -WIDE_CLIP else 0.0
        return bool(max(above, below) > SATURATED)


def choose_bound(logits: Pair, ratio: LogRatio | None, goal: LimitGoal) -> Bound:
    """The clipping with the highest lower limit to be expected."""
    largest = max(np.abs(part).max() for part in logits)
    clips = np.array([c for c in CLIPS if c < 2 * largest] or CLIPS[:1])

    def best(low: float | np.ndarray, high: float | np.ndarray) -> Bound:
        found = _candidates(logits, ratio, goal, *np.broadcast_arrays(low, high))
        return _row(found, int(np.argmax(found.expected)))

    both = best(-clips, clips)
    below = best(-clips, both.high)
    chosen = best(below.low, clips)
    return chosen._replace(part_allowances=_part_allowances(chosen, logits, goal))


def make_bound(
    logits: Pair, ratio: LogRatio | None, goal: LimitGoal, low: float, high: float
) -> Bound:
    """Constants, coefficient and allowance for given limits of $f$, from held-out log odds."""
    bound = _row(_candidates(logits, ratio, goal, np.array([low]), np.array([high])), 0)
    return bound._replace(part_allowances=_part_allowances(bound, logits, goal))


def _candidates(
    logits: Pair, ratio: LogRatio | None, goal: LimitGoal, low: np.ndarray, high: np.ndarray
) -> Bound:
    """Bounds for several limits at once, one in each row."""
    low, high = low[:, None], high[:, None]
    bound = Bound(low, high, *_constants(logits, ratio, low, high), 0.0, 0.0, 0.0)
    bound = bound._replace(coefficient=best_coefficient(bound.integrands(logits), ratio))
    terms = bound.terms(logits, ratio)
    allowance = _allowance(bound, terms, ratio, goal)
    variance = sum(
        part.var(axis=1, ddof=1, keepdims=True) / n
        for part, n in zip(terms, goal.nums, strict=True)
    )
    margin = float(special.ndtri(goal.level)) * np.sqrt(variance) + allowance
    expected = _mean(terms[0]) + _mean(terms[1]) - margin
    return bound._replace(allowance=allowance, expected=expected)


def _row(bounds: Bound, index: int) -> Bound:
    """One candidate of several, as numbers."""
    numbers = [float(np.ravel(part)[index]) if np.ndim(part) else part for part in bounds[:7]]
    return Bound._make([*numbers, (0.0, 0.0)])


def _mean(terms: np.ndarray) -> np.ndarray:
    return terms.mean(axis=-1, keepdims=True)


def _constants(
    logits: Pair, ratio: LogRatio | None, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\log E_q e^f$ and $\log E_p e^{-f}$, with one run at the limit added to each sample.

    The added run keeps the estimates from being too small where the largest values are rare.
    """
    at_gold, at_target = (np.clip(part, low, high) for part in logits)
    if ratio is None:
        a = np.exp(high) / at_target.shape[-1] + _mean(np.exp(at_target))
        b = np.exp(-low) / at_gold.shape[-1] + _mean(np.exp(-at_gold))
    else:
        a = b = np.zeros(())
        for f, one in ((at_gold, ratio.gold), (at_target, ratio.target)):
            a = a + _mean(special.expit(-one) * np.exp(f))
            b = b + _mean(special.expit(one) * np.exp(-f))
    return np.log(a), np.log(b)


def _allowance(bound: Bound, terms: Pair, ratio: LogRatio | None, goal: LimitGoal) -> np.ndarray:
    r"""Nats that low terms which no run has shown may take away from the mean.

    An event of probability $\log(1/(1 - level))/N$ goes unseen with probability $1 - level$. The
    clipping says how low an unbalanced term can be. For balanced terms, which are small wherever
    either algorithm has outputs, the lowest term seen is used.
    """
    edges = bound.integrands((np.asarray(bound.low), np.asarray(bound.high)))
    lowest = (edges.u_gold, edges.v_target)
    if ratio is not None:
        lowest = (terms[0].min(axis=-1, keepdims=True), terms[1].min(axis=-1, keepdims=True))
    total = sum(
        np.maximum(_mean(part) - low, 0.0) / num
        for part, low, num in zip(terms, lowest, goal.nums, strict=True)
    )
    return np.asarray(-np.log(1 - goal.level) * total)


def _part_allowances(bound: Bound, logits: Pair, goal: LimitGoal) -> Parts:
    """The allowance of each direction alone."""
    ends = np.array([bound.low]), np.array([bound.high])
    forward, backward = (
        sum(
            (np.mean(seen) - lowest[0]) / num
            for seen, lowest, num in zip(half, edge, goal.nums, strict=True)
        )
        for half, edge in zip(bound.halves(logits), bound.halves(ends), strict=True)
    )
    factor = -np.log(1 - goal.level)
    return float(factor * forward), float(factor * backward)
