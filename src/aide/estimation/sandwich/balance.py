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
bounded control variate besides: $\sigma(-\ell)$ at gold draws, $-\sigma(\ell)$ at target draws.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from aide.estimation.draws import Draws

MIN_OVERLAP = 50.0
"""With less overlap than this, what happens between the two distributions has hardly been seen."""


class LogRatio(NamedTuple):
    r"""$\ell = \log(G/T)$ at the gold draws and at the target draws."""

    gold: np.ndarray
    target: np.ndarray

    def take(self, gold: np.ndarray, target: np.ndarray) -> "LogRatio":
        """Some of the draws."""
        return LogRatio(self.gold[gold], self.target[target])


class Integrands(NamedTuple):
    r"""$u$ and $v$ of $E_G u + E_T v$, each at both kinds of draws."""

    u_gold: np.ndarray
    v_gold: np.ndarray
    u_target: np.ndarray
    v_target: np.ndarray

    def take(self, gold: np.ndarray, target: np.ndarray) -> "Integrands":
        """Some of the draws."""
        return Integrands(
            self.u_gold[gold], self.v_gold[gold], self.u_target[target], self.v_target[target]
        )


def log_ratio(draws: Draws, num_gold: int, num_target: int) -> LogRatio | None:
    r"""$\ell$ from the first `num_*` traces of each algorithm; `None` if a $Z$ is unknown."""
    gold_z, target_z = draws.log_z
    if gold_z is None or target_z is None:
        return None
    shift = target_z - gold_z
    return LogRatio(
        draws.gold.kept(num_gold) - draws.gold.scored(num_target) + shift,
        draws.target.scored(num_gold) - draws.target.kept(num_target) + shift,
    )


def calm_terms(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    r"""Terms at gold and at target draws whose means add up to $E[\hat D]$, with little noise.

    $\ell\tanh(\ell/2)$ at both if $Z$ is known on both sides. It lies between 0 and $|\ell|$: tails
    are no heavier than those of AIDE's own terms $\ell$ and $-\ell$, as they can be with a fitted
    coefficient. Otherwise AIDE's own.
    """
    metas = draws.num_meta_gold, draws.num_meta_target
    ratio = log_ratio(draws, *metas)
    if ratio is None:
        own = draws.gold.kept(metas[0]), draws.target.kept(metas[1])
        return own[0] - draws.gold.scored(metas[1]), own[1] - draws.target.scored(metas[0])
    return ratio.gold * np.tanh(ratio.gold / 2), ratio.target * np.tanh(ratio.target / 2)


def overlap(ratio: LogRatio) -> float:
    r"""Draws' worth of overlap that the samples show: $\sum\sigma(-\ell) + \sum\sigma(\ell)$."""
    return float(special.expit(-ratio.gold).sum() + special.expit(ratio.target).sum())


def bridge_z(ratio: LogRatio) -> float | None:
    r"""How many standard errors $E_G\,\sigma(-\ell) = E_T\,\sigma(\ell)$ fails by.

    `None` where the two samples overlap too little to tell.
    """
    gold, target = special.expit(-ratio.gold), special.expit(ratio.target)
    if overlap(ratio) < MIN_OVERLAP or min(gold.size, target.size) < 2:
        return None
    error = np.hypot(
        gold.std(ddof=1) / np.sqrt(gold.size), target.std(ddof=1) / np.sqrt(target.size)
    )
    difference = gold.mean() - target.mean()
    if abs(difference) < 1e-9:
        return 0.0
    return float(difference / error) if error > 0 else np.inf


def fold_of(num: int, num_folds: int) -> np.ndarray:
    """The fold of every run: runs are independent, so taking turns is as good as chance."""
    return np.arange(num) % num_folds


def combine(
    values: Integrands, ratio: LogRatio | None, coefficient: float
) -> tuple[np.ndarray, np.ndarray]:
    """Terms at gold and at target draws whose means add up to $E_G u + E_T v$."""
    if ratio is None:
        return values.u_gold, values.v_target
    share = special.expit(ratio.gold), special.expit(ratio.target)
    return (
        share[0] * values.u_gold + (1 - share[0]) * (values.v_gold + coefficient),
        share[1] * (values.u_target - coefficient) + (1 - share[1]) * values.v_target,
    )


def cross_fitted(
    values: Integrands, ratio: LogRatio | None, num_folds: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same with the coefficient from the other folds, so that it adds no bias."""
    gold, target = values.u_gold.copy(), values.v_target.copy()
    if ratio is None or np.isinf(gold).any() or np.isinf(target).any():
        return gold, target
    of_gold, of_target = fold_of(gold.size, num_folds), fold_of(target.size, num_folds)
    for fold in range(num_folds):
        rest = of_gold != fold, of_target != fold
        here = of_gold == fold, of_target == fold
        coefficient = best_coefficient(values.take(*rest), ratio.take(*rest))
        terms = combine(values.take(*here), ratio.take(*here), coefficient)
        gold[here[0]], target[here[1]] = terms
    return gold, target


def best_coefficient(values: Integrands, ratio: LogRatio | None) -> float:
    """The coefficient that minimises the variance; 0 where it would rest on what was not seen."""
    if ratio is None or overlap(ratio) < MIN_OVERLAP:
        return 0.0
    controls = special.expit(-ratio.gold), -special.expit(ratio.target)
    product = square = 0.0
    for term, control in zip(combine(values, ratio, 0.0), controls, strict=True):
        deviation = control - control.mean()
        product += deviation @ (term - term.mean()) / term.size**2
        square += deviation @ deviation / term.size**2
    return -product / square if square > 0 else 0.0
