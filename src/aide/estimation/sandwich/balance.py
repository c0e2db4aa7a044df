r"""Means over two samples whose log density ratio is known, with little noise.

Gold draws and target draws live on one space: an output $x$, $m$ traces of the gold standard and
$m'$ of the target. A gold draw $z$ has the density $G(z) = \hat\xi_{gold}/Z_{gold}\,R(z)$, where
$\hat\xi$ averages $\xi$ over the traces (the real one among them) and $R$ is the law of pure
`regenerate` draws; a target draw has $T(z) = \hat\xi_{target}/Z_{target}\,R(z)$. So if $Z$ is known
on both sides, $\ell = \log(G/T)$ is known at every draw, however intractable the algorithms are,
and for every function $h$, with $\sigma$ the logistic function,

$$E_G[\sigma(-\ell)\,h] = \int \frac{G\,T}{G + T}\,h = E_T[\sigma(\ell)\,h].$$

(Bennett, 1976, J. Comput. Phys. 22:245-268; Meng & Wong, 1996, Statistica Sinica 6:831-860.) It
needs no condition on supports: the middle vanishes where either density does. With $h = v - u$ it
turns $E_G u + E_T v$ into the sum of the means of

$$\sigma(\ell)\,u + \sigma(-\ell)\,v$$

over the gold draws and over the target draws: both samples now estimate both means. For AIDE, $u =
\ell$ and $v = -\ell$, that is $\ell\tanh(\ell/2) \ge 0$, whose spread near $\ell = 0$ is that of
$\ell^2/2$ where that of the plain terms is that of $\ell$. With $h = 1$ the identity gives a
bounded control variate besides, which the lower bound uses: $\sigma(-\ell)$ at gold draws,
$-\sigma(\ell)$ at target draws. For AIDE's terms its coefficient must not be fitted: upper limits
were then too low in 6 to 10% instead of 2.5% of the replications.
"""

from typing import NamedTuple

import numpy as np

from aide._core.exact_tests import log_capital
from aide._core.numerics import special
from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.estimation.interval import FALSE_ALARM, confidence_limit
from aide.estimation.terms import Metas, Terms, log_z_shift, mean_of, terms_of

MIN_OVERLAP = 50.0
"""Least overlap, in draws, for which a coefficient is fitted: less says too little about it."""


class LogRatio(NamedTuple):
    r"""$\ell = \log(G/T)$ at the gold draws and at the target draws."""

    gold: np.ndarray
    target: np.ndarray

    def take(self, gold: np.ndarray, target: np.ndarray) -> "LogRatio":
        """The log ratios of some of the draws."""
        return LogRatio(self.gold[gold], self.target[target])


class Integrands(NamedTuple):
    r"""$u$ and $v$ of $E_G u + E_T v$, each at gold and at target draws."""

    u_gold: np.ndarray
    v_gold: np.ndarray
    u_target: np.ndarray
    v_target: np.ndarray

    def take(self, gold: np.ndarray, target: np.ndarray) -> "Integrands":
        """The integrands at some of the draws."""
        return Integrands(
            self.u_gold[gold], self.v_gold[gold], self.u_target[target], self.v_target[target]
        )


def log_ratio_of(draws: Draws, metas: Metas | None = None) -> LogRatio | None:
    r"""$\ell$ from all M traces of each algorithm, or from the first `metas` traces.

    `None` if a $Z$ is unknown.
    """
    shift = log_z_shift(draws, GOLD)
    if shift is None:
        return None
    terms = terms_of(draws, metas)
    return LogRatio(terms.gold + shift, -terms.target + shift)


def balanced_terms(draws: Draws) -> Terms:
    r"""Terms at gold and at target draws whose means add up to $E[\hat D]$, with little noise.

    If $Z$ is known on both sides, the terms are $\ell\tanh(\ell/2)$ at all draws. They lie between
    0 and $|\ell|$, so that their tails are no heavier than those of AIDE's own terms $\ell$ and
    $-\ell$; terms with a fitted coefficient can have heavier ones. If a $Z$ is unknown, they are
    AIDE's own terms.
    """
    ratio = log_ratio_of(draws)
    if ratio is None:
        return terms_of(draws)
    return Terms(ratio.gold * np.tanh(ratio.gold / 2), ratio.target * np.tanh(ratio.target / 2))


def balanced_limits(draws: Draws, level: float) -> tuple[float, float]:
    """Limits from balanced terms, each of which fails with probability (1 - level) / 2 at most.

    They are limits of the same number as `Estimate.interval`, which rests on AIDE's own terms. By
    chance the two intervals may not meet; these limits are then widened until they touch the other
    interval, which only makes them safer. Neither limit is below 0.
    """
    low, high = 0.5 - level / 2, 0.5 + level / 2
    own, balanced = terms_of(draws), balanced_terms(draws)
    rows = [draws.sequences(role) for role in (GOLD, TARGET)]
    lower = min(confidence_limit(balanced, low, rows), confidence_limit(own, high, rows))
    upper = max(confidence_limit(balanced, high, rows), confidence_limit(own, low, rows))
    return max(lower, 0.0), max(upper, 0.0)


def balanced_error(draws: Draws) -> float:
    """Standard error of the sum of the means of `balanced_terms`."""
    parts = [
        mean_of(t, draws.sequences(r)) for r, t in zip(Role, balanced_terms(draws), strict=True)
    ]
    return float(np.hypot(parts[0].std_error, parts[1].std_error))


def overlap(ratio: LogRatio) -> float:
    r"""Overlap in draws: $\sum\sigma(-\ell)$ at gold draws plus $\sum\sigma(\ell)$ at target draws.

    It is the number of all draws if the distributions are equal, and 0 if they are disjoint.
    """
    return float(special.expit(-ratio.gold).sum() + special.expit(ratio.target).sum())


def bridge_failure(ratio: LogRatio) -> float | None:
    r"""By how much $E_G\,\sigma(-\ell) = E_T\,\sigma(\ell)$ fails, if chance cannot explain it.

    A bet against the identity: differences $d_i$ of a gold term and a target term lie between -1
    and 1 and have mean 0 (`aide._core.exact_tests.log_capital`).

    Law: for correct algorithms, whatever their tails and rare parts, it ever exceeds 10,000 with
    probability $10^{-4}$ at most (Ville; Waudby-Smith & Ramdas, 2024, JRSS B 86:1-27).
    """
    gold, target = special.expit(-ratio.gold), special.expit(ratio.target)
    num = min(gold.size, target.size)
    differences = _means_of_groups(gold, num) - _means_of_groups(target, num)
    if log_capital(differences).max(initial=0.0) < -np.log(FALSE_ALARM):
        return None
    return float(differences.mean())


def _means_of_groups(terms: np.ndarray, num: int) -> np.ndarray:
    """Means of `num` groups of equally many terms each."""
    size = terms.size // num
    return terms[: num * size].reshape(num, size).mean(axis=1)


def fold_of(num: int, num_folds: int) -> np.ndarray:
    """The fold of every run, in turn: runs are independent, so that chance would do no better."""
    return np.arange(num) % num_folds


def combine(
    values: Integrands, ratio: LogRatio | None, coefficient: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Terms at gold and at target draws whose means add up to $E_G u + E_T v$."""
    if ratio is None:
        return values.u_gold, values.v_target
    share = special.expit(ratio.gold), special.expit(ratio.target)
    return (
        share[0] * values.u_gold + (1 - share[0]) * (values.v_gold + coefficient),
        share[1] * (values.u_target - coefficient) + (1 - share[1]) * values.v_target,
    )


def best_coefficient(values: Integrands, ratio: LogRatio | None) -> float | np.ndarray:
    """The coefficient of the control variate with the least variance; 0 with too little overlap.

    One for each row of the integrands, as a column.
    """
    if ratio is None or overlap(ratio) < MIN_OVERLAP:
        return 0.0
    controls = special.expit(-ratio.gold), -special.expit(ratio.target)
    product, square = np.zeros(()), 0.0
    for term, control in zip(combine(values, ratio, 0.0), controls, strict=True):
        deviation = control - control.mean()
        centred = term - term.mean(axis=-1, keepdims=True)
        product = product + (centred @ deviation)[..., None] / control.size**2
        square += deviation @ deviation / control.size**2
    return -product / square if square > 0 else 0.0
