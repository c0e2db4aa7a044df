r"""The two laws of a kernel: its claimed reversal undoes it; its density is invariant.

**Reversal**: $\pi(dx) K(x, dy) = \pi(dy) K^*(y, dx)$. With $x \sim s$ and $w = \pi/s$, a step of
$K$ to $y$ gives the pair $(a, b) = (x, y)$ with density $1/w(a)$ relative to $\pi(da) K(a, db)$; a
step of $K^*$ to $z$ gives $(a, b) = (z, x)$ with density $1/w(b)$. So if a fair coin decides which
of both steps is made, the odds of $K$ given the pair are $w(b) : w(a)$, for *every* kernel and
every start. For a reversible kernel no coin is needed: given the two states, $x$ came first
with odds $w(y) : w(x)$. The terms

$$T = w(x)\,H(x, y)\,m(x)\,m(y) \quad\text{or}\quad T = -w(x)\,H(z, x)\,m(x)\,m(z), \qquad
  m = \min\{1, c/w\},$$

have two known values each, with known odds and mean zero, and their sum is judged exactly (see
`aide._core.exact_tests`), however rare large terms are. $H$ runs over $f(x) g(y)$ and odd
functions of the jump. Pilot runs select the columns with the largest deviations and the best linear
combination of all columns; fresh runs test these few.

**Invariance**: $\pi K = \pi$. With $y$ one step from $x$, for every $g \ge 0$

$$E_s[w(x)\,m(x)\,g(y)\,m(y)] \le \int \pi\,g\,m = E_s[w(x)\,m(x)\,g(x)],$$

with equality where no weight is cut: the mass that arrives in $g$ cannot exceed its mass under
$\pi$, for *every* start. Both sides lie between 0 and $c$ for $g \le 1$, so a bet on "too much" is
exact at any tail (`aide._core.exact_tests`). Where too little arrives, too much arrives elsewhere:
the pilot runs decide between bets on $g$ and on $1 - g$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aide._core.exact_tests import (
    deviations,
    log_average,
    log_wealths,
    order_p_values,
    wealth_p_value,
)
from aide.checking.kernel.functions import Functions, View

NUM_PICKED = 8
"""Number of functions that fresh runs test, beside the best combination of all."""
RIDGE = 0.05
"""Addition to the diagonal of correlations of pilot terms, which keeps few terms from deciding."""


@dataclass(frozen=True)
class LawTest:
    """One law, tested.

    Attributes:
        law: `reversible`, `reversal` or `invariance`.
        p_value: Probability of so large a deviation if the law holds, over all functions together;
            an upper bound at every sample size, start and tail of the weights.
        z: The largest deviation in standard errors.
        function: The function with the largest deviation.
    """

    law: str
    p_value: float
    z: float
    function: str


class OrderedTerms(NamedTuple):
    """Terms in the order that was seen and in the opposite order, and the log odds.

    Attributes:
        gap: Log odds of the order that was seen; infinite for pairs without information.
        seen: Terms in the order that was seen: one row a run, one column per function.
        other: Terms in the opposite order.
    """

    gap: np.ndarray
    seen: np.ndarray
    other: np.ndarray


Terms = Callable[[View], OrderedTerms]


def reversal_terms(
    functions: Functions, both_ways: bool, rng: np.random.Generator
) -> tuple[Terms, list[str]]:
    """Terms of the law, one column per $H$, and their names.

    For a reversible kernel (`both_ways`), exchanging $f$ and $g$ only changes the sign.
    """
    names, size = functions.names, len(functions.names)
    first, second = np.triu_indices(size, 1) if both_ways else np.indices((size, size))
    first, second = first.ravel(), second.ravel()

    def terms(view: View) -> OrderedTerms:
        there = view.before[:, first] * view.after[:, second]
        back = view.reverse[:, first] * view.before[:, second]
        if both_ways:
            size, log_weight = np.concatenate([there - back, view.jumps], 1), view.log_weight_after
        else:
            is_forward = rng.random(len(there)) < 0.5
            forward = np.concatenate([there, view.jumps], axis=1)
            backward = np.concatenate([-back, view.jumps_reverse], axis=1)  # H(z, x) = -H(x, z)
            size = np.where(is_forward[:, None], forward, backward)
            log_weight = np.where(is_forward, view.log_weight_after, view.log_weight_reverse)
        return _weigh(size, view.log_weight, log_weight)

    labels = [f"{names[i]} before and {names[j]} after" for i, j in zip(first, second, strict=True)]
    return terms, labels + functions.jump_names


def _weigh(size: np.ndarray, log_start: np.ndarray, log_end: np.ndarray) -> OrderedTerms:
    # A start where the density is 0, or an end that the start cannot reach, has no information.
    silent = (log_start == -np.inf) | (log_end == np.inf)
    log_start, log_end = np.where(silent, 0.0, log_start), np.where(silent, 0.0, log_end)
    log_damped = np.minimum(-log_start, 0.0) + np.minimum(-log_end, 0.0)
    seen, other = (np.where(silent, 0.0, np.exp(a + log_damped)) for a in (log_start, log_end))
    gap = np.where(silent, np.inf, log_end - log_start)
    return OrderedTerms(gap, size * seen[:, None], -size * other[:, None])


class ReversalTest:
    """Selects columns and a linear combination on the pilot runs; then adds up fresh runs."""

    def __init__(self, law: str, terms: Terms, names: list[str], pilot: View):
        self.law, self.terms = law, terms
        picked, combination = pick(terms(pilot).seen)
        self.coefficients = np.zeros((len(names), picked.size + 1))
        self.coefficients[picked, np.arange(picked.size)] = 1.0
        self.coefficients[:, -1] = combination
        self.names = [names[k] for k in picked] + ["the best combination of all functions"]
        self.parts: list[OrderedTerms] = []

    def add(self, view: View) -> None:
        """Add the terms of fresh runs."""
        pairs = self.terms(view)
        combined = (table @ self.coefficients for table in (pairs.seen, pairs.other))
        self.parts.append(OrderedTerms(pairs.gap, *combined))

    def verdict(self) -> LawTest:
        """The smallest p-value times the number of columns."""
        pairs = OrderedTerms(*(np.concatenate(parts) for parts in zip(*self.parts, strict=True)))
        p_value = min(1.0, order_p_values(*pairs).min() * len(self.names))
        return law_test_of(self.law, p_value, deviations(*pairs), self.names)


def pick(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns with the largest means in units of their size, and the best combination."""
    size = np.sqrt((table**2).mean(axis=0))
    alive = np.flatnonzero(size > 1e-12 * size.max(initial=0.0))
    scaled = table[:, alive] / size[alive]
    mean = scaled.mean(axis=0)
    covariance = scaled.T @ scaled / len(scaled)
    combination = np.zeros(table.shape[1])
    combination[alive] = np.linalg.solve(covariance + RIDGE * np.eye(alive.size), mean)
    combination[alive] /= size[alive]
    return alive[np.argsort(-np.abs(mean), kind="stable")[:NUM_PICKED]], combination


def law_test_of(law: str, p_value: float, z: np.ndarray, names: list[str]) -> LawTest:
    """Name the single function with the largest deviation, or the last column, the combination.

    A single function is named unless the combination deviates more than twice as much.
    """
    if not z.any():
        return LawTest(law, p_value, 0.0, "nothing: no state changed")
    single = int(np.argmax(np.abs(z[:-1])))
    worst = single if abs(z[single]) > 0.5 * abs(z[-1]) else z.size - 1
    return LawTest(law, p_value, float(z[worst]), names[worst])


class InvarianceTest:
    """Selects functions and a linear combination on the pilot runs; then adds up fresh runs."""

    def __init__(self, functions: Functions, pilot: View):
        gain, loss = _sides(pilot, pilot.before[:, 1:], pilot.after[:, 1:])
        picked, combination = pick(gain - loss)
        names = functions.names[1:]  # the first is constant
        self.names = [f"mean of {names[k]}" for k in picked]
        self.names.append("the best combination of all functions")
        self.slopes = np.zeros((len(names), picked.size + 1))
        self.offsets = np.zeros(picked.size + 1)
        signs = np.sign((gain - loss)[:, picked].mean(axis=0))
        self.slopes[picked, np.arange(picked.size)] = np.where(signs < 0, -1.0, 1.0)
        self.offsets[:-1] = signs < 0
        seen = np.concatenate([pilot.before[:, 1:], pilot.after[:, 1:]]) @ combination
        low, width = seen.min(), max(float(np.ptp(seen)), 1e-300)
        self.slopes[:, -1], self.offsets[-1] = combination / width, -low / width
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, view: View) -> None:
        """Add the terms of fresh runs."""
        ends = (view.before[:, 1:], view.after[:, 1:])
        before, after = (np.clip(end @ self.slopes + self.offsets, 0.0, 1.0) for end in ends)
        self.parts.append(_sides(view, before, after))

    def verdict(self) -> LawTest:
        """The average wealth of all bets."""
        gain, loss = (np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        with np.errstate(divide="ignore"):
            p_value = wealth_p_value(log_average(log_wealths(np.log(gain), loss)))
        terms = gain - loss
        size = np.sqrt((terms**2).sum(axis=0))
        z = terms.sum(axis=0) / np.where(size > 0, size, np.inf)
        return law_test_of("invariance", p_value, z, self.names)


def _sides(view: View, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The mass that arrives in each function, and its mass under $\pi$, in units of $c$."""
    weight = np.exp(np.minimum(view.log_weight, 0.0))[:, None]
    damped = np.exp(np.minimum(-view.log_weight_after, 0.0))[:, None]
    return weight * after * damped, weight * before
