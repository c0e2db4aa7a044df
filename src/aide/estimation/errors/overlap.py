r"""The outputs of both algorithms as one weighted sample of each: bounded weights, no heavy tails.

On the space of an output and of all traces that score it, let $P$ be the law of the gold standard's
runs with the target's meta-runs, and $Q$ that of the target's runs with the gold standard's. Their
outputs are those of the two algorithms, and $P/Q = e^\ell$ with $\ell = \log\hat\xi_{gold} -
\log\hat\xi_{target} - c$ exactly, whatever the meta-inference and M; $c$ is the log ratio of both
$Z$. With shares $\alpha + \beta = 1$ and $\sigma = \alpha P/(\alpha P + \beta Q)$,

$$E_{gold} f = E_P[f\sigma] + \tfrac\beta\alpha E_Q[f\sigma], \qquad
E_{target} f = \tfrac\alpha\beta E_P[f(1-\sigma)] + E_Q[f(1-\sigma)]$$

for every $f$ of the output. With $\alpha = \frac12$ the difference of both is $E_P[f\tanh(\ell/2)]
+ E_Q[f\tanh(\ell/2)]$: where the two algorithms agree, its variance vanishes. `Overlap` holds these
weights.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aide._core.numerics import special
from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.estimation.terms import Sequences, log_z_shift, rests_on_one_density, terms_of

MOST_APART = 700.0
"""Largest finite log ratio, in nats; the exponential of a larger one overflows."""


@dataclass(frozen=True)
class Overlap:
    r"""Weights of all runs, the gold standard's first, in samples of each algorithm.

    Attributes:
        log_ratio: $\ell$ of every run, without $c$.
        num_gold: Number of runs of the gold standard.
        share: $\alpha$, the gold standard's share of all independent runs.
        knows_constant: Whether $c$ was known; otherwise $c$ solves Bennett's equation.
        rows: Sequences of dependent runs of each algorithm; `None` if runs are independent.
    """

    log_ratio: np.ndarray
    num_gold: int
    share: float
    knows_constant: bool
    rows: tuple[Sequences | None, Sequences | None] = (None, None)

    @property
    def num_runs(self) -> tuple[int, int]:
        """Numbers of runs of both algorithms."""
        return self.num_gold, self.log_ratio.size - self.num_gold

    def part(self, role: Role) -> slice:
        """The entries that belong to the runs of one algorithm."""
        return slice(0, self.num_gold) if role is GOLD else slice(self.num_gold, None)

    @cached_property
    def membership(self) -> np.ndarray:
        r"""$\sigma$: the probability that an output like this one is from the gold standard."""
        return special.expit(self.log_ratio + np.log(self.share) - np.log1p(-self.share))

    @cached_property
    def as_gold(self) -> np.ndarray:
        r"""Weights with which $\sum_i p_i f(x_i)$ estimates $E_{gold} f$, without bias."""
        return self.membership * self._per_run(1.0, (1 - self.share) / self.share)

    @cached_property
    def as_target(self) -> np.ndarray:
        r"""Weights with which $\sum_i q_i f(x_i)$ estimates $E_{target} f$, without bias."""
        outside = special.expit(-self.log_ratio - np.log(self.share) + np.log1p(-self.share))
        return outside * self._per_run(self.share / (1 - self.share), 1.0)

    @cached_property
    def largest_step(self) -> float:
        """The change of a difference of probabilities by a single run, both sides together."""
        steps = np.abs(self.as_target - self.as_gold)
        return float(np.hypot(*(steps[self.part(role)].max() for role in Role)))

    @cached_property
    def control(self) -> np.ndarray:
        r"""Contributions of $E_P[\frac{Q}{\alpha P+\beta Q}] - E_Q[\frac{P}{\alpha P+\beta Q}]$.

        They add up to 0 on average, also if all are multiplied by any function of the output.
        """
        found, (gold, target) = np.empty_like(self.log_ratio), (self.part(role) for role in Role)
        found[gold] = self.as_target[gold] / self.share
        found[target] = -self.as_gold[target] / (1 - self.share)
        return found

    @cached_property
    def control_slope(self) -> float:
        """The derivative by $c$ of the sum of `control`."""
        is_gold = np.arange(self.log_ratio.size) < self.num_gold
        return float(np.where(is_gold, self.membership, self.membership - 1) @ self.control)

    def slope(self, in_gold: np.ndarray, in_target: np.ndarray) -> np.ndarray:
        r"""The derivative of $\sum_i (p_i b_i + q_i a_i)$ by $c$; the last axis is that of runs."""
        inside = self.membership
        return in_target @ (self.as_target * inside) - in_gold @ (self.as_gold * (1 - inside))

    def _per_run(self, at_gold: float, at_target: float) -> np.ndarray:
        gold, target = self.num_runs
        return np.repeat([at_gold / gold, at_target / target], [gold, target])


def overlap_of(draws: Draws) -> Overlap | None:
    r"""The weights of all runs of an estimate.

    `None` if both algorithms state the same density, so that ratios say nothing
    (`rests_on_one_density`), or if an algorithm has a single run.
    """
    if rests_on_one_density(draws) or min(side.num_runs for side in draws.sides) < 2:
        return None
    terms, shift = terms_of(draws), log_z_shift(draws, GOLD)
    ratio = np.concatenate([terms.gold, -terms.target]) + (shift or 0.0)
    worth = [effective_runs(draws, role) for role in Role]
    share, num_gold = worth[0] / sum(worth), draws.gold.num_runs
    if shift is None:
        ratio = ratio - bennett_constant(ratio, num_gold, share)
    rows = draws.sequences(GOLD), draws.sequences(TARGET)
    return Overlap(ratio, num_gold, share, shift is not None, rows)


def apart(draws: Draws) -> Overlap:
    """Weights that use no density: each algorithm's outputs are a sample of itself alone."""
    gold, target = (side.num_runs for side in draws.sides)
    return apart_in((gold, target), (draws.sequences(GOLD), draws.sequences(TARGET)))


def apart_in(
    nums: tuple[int, int],
    rows: tuple[Sequences | None, Sequences | None],
    share: float = 0.5,
) -> Overlap:
    """Weights that use no density, for these numbers of outputs and sequences of dependent ones."""
    return Overlap(np.repeat([np.inf, -np.inf], nums), nums[0], share, True, rows)


def effective_runs(draws: Draws, role: Role) -> float:
    """The number of independent runs of equal worth, by the coordinates of fixed draws."""
    side = draws.side(role)
    known = side.chains is not None and np.isfinite(side.chains.effective)
    share = side.chains.effective / side.chains.size if known and side.chains else 1.0
    return float(side.num_runs * min(share, 1.0))


def bennett_constant(log_ratio: np.ndarray, num_gold: int, share: float) -> float:
    r"""The $c$ at which $E_P[Q/(\alpha P + \beta Q)] = E_Q[P/(\alpha P + \beta Q)]$ in the sample.

    Bennett (1976), Journal of Computational Physics 22:245-268. 0 where no log ratio is finite.
    """
    finite = log_ratio[np.isfinite(log_ratio)]
    if not finite.size:
        return 0.0
    low, high = finite.min() - MOST_APART / 10, finite.max() + MOST_APART / 10
    for _ in range(200):
        middle = 0.5 * (low + high)
        if bennett_excess(log_ratio, num_gold, share, middle) < 0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * max(1.0, abs(middle)):
            break
    return float(0.5 * (low + high))


def bennett_excess(log_ratio: np.ndarray, num_gold: int, share: float, c: float) -> float:
    """Left less right side of Bennett's equation; it rises with c."""
    shifted = log_ratio - c + np.log(share) - np.log1p(-share)
    left = special.expit(-shifted[:num_gold]).mean() / (1 - share)
    return float(left - special.expit(shifted[num_gold:]).mean() / share)
