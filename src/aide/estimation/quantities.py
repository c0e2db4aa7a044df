r"""The numbers an estimate is made of, and how they come from the draws."""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import row_log_mean_exp, running_log_mean_exp
from aide.draws.draws import Draws, Side

ROUNDING = 1e-9
"""Differences between log xi below this, relative to their size, are rounding."""


class Mean(NamedTuple):
    """A mean and its standard error (NaN for a single run, infinite for infinite terms)."""

    value: float
    std_error: float


class Direction(NamedTuple):
    r"""One direction of the divergence: a KL bound only if $Z$ is known on both sides.

    Otherwise the value is shifted by an unknown constant that cancels in the sum.
    """

    value: float
    std_error: float
    is_kl_bound: bool
    num_infinite: int


class LogZBounds(NamedTuple):
    r"""A two-sided bound, in expectation, on the unknown $\log Z$ of one algorithm.

    If that algorithm's $\xi$ is $p(x, y)$, this is the log evidence $\log p(y)$.
    """

    of: str
    lower: Mean
    upper: Mean


class Bracket(NamedTuple):
    """A two-sided bound, in expectation: the mean of `lower` is below, that of `upper` above."""

    lower: Mean
    upper: Mean


class KlBounds(NamedTuple):
    r"""Two-sided bounds on one direction each; `None` unless $p$ in $KL(q \| p)$ is tractable."""

    gold_to_target: Bracket | None
    target_to_gold: Bracket | None


class Looseness(NamedTuple):
    r"""How loose meta-inference is, per algorithm, at the algorithm's own outputs.

    The average gap between its upper and lower estimate of $\log q(x)$ there, which bounds what
    meta-inference adds to the estimate at these outputs, in expectation. It says nothing about the
    other algorithm's outputs (`cross_fall` does, if M > 1). 0 for tractable algorithms; `None` if
    it was not drawn.
    """

    gold: Mean | None
    target: Mean | None


class MetaCurve(NamedTuple):
    """The estimate for every smaller number of meta-inference runs of one algorithm."""

    num_meta: np.ndarray
    value: np.ndarray
    std_error: np.ndarray


def check_role(role: str) -> None:
    """Raise unless the role is one of the two."""
    if role not in ("gold", "target"):
        raise ValueError(f"role must be 'gold' or 'target', got {role!r}.")


def mean_of(terms: np.ndarray) -> Mean:
    """Mean and standard error; an infinite term makes both infinite."""
    if np.isinf(terms).any():
        return Mean(float(terms[np.isinf(terms)][0]), np.inf)
    error = terms.std(ddof=1) / np.sqrt(terms.size) if terms.size > 1 else np.nan
    return Mean(float(terms.mean()), float(error))


def looseness_of(draws: Draws) -> Looseness:
    """The looseness meter; see `Looseness`."""

    def gap(side: Side, num_meta: int) -> Mean | None:
        fresh = side.fresh(num_meta)
        return None if fresh is None else mean_of(side.kept(num_meta) - fresh)

    return Looseness(gap(draws.gold, draws.num_meta_gold), gap(draws.target, draws.num_meta_target))


def cross_fall(draws: Draws, role: str) -> Mean | None:
    r"""How far the bound fell from M/2 to M of `role` at the other algorithm's outputs.

    $E[\log\hat\xi_M - \log\hat\xi_{M/2}]$ there, which is never negative: the second meter, for
    what the looseness does not see. `None` with M = 1.
    """
    side = draws.target if role == "gold" else draws.gold
    num = draws.num_meta_gold if role == "gold" else draws.num_meta_target
    half = num // 2
    if half < 1:
        return None
    whole = row_log_mean_exp(side.cross[:, :num])
    first = row_log_mean_exp(side.cross[:, :half])
    second = row_log_mean_exp(side.cross[:, num - half : num])
    found = whole > -np.inf  # where no trace explains the output, nothing has fallen yet
    falls = np.zeros(whole.size)
    falls[found] = whole[found] - 0.5 * (first[found] + second[found])
    return mean_of(falls)


def is_tractable(draws: Draws, role: str) -> bool:
    r"""Whether $\xi$ of the algorithm is a function of the output: $\xi = Z q(x)$.

    Either the algorithm says so, or it was seen: two or more scores at every output, the own ones
    and the other's, all equal to rounding. A $\xi$ that is random at a share of outputs above
    `unseen_share` would have been seen to vary. One score per output says nothing.
    """
    own, cross = draws.gold.own, draws.target.cross
    if role == "target":
        own, cross = draws.target.own, draws.gold.cross
    said = getattr(draws, "tractable", (False, False))[0 if role == "gold" else 1]
    if not said and min(own.shape[1], cross.shape[1]) < 2:
        return False
    return all(
        bool(np.isclose(scores, scores[:, :1], rtol=ROUNDING, atol=ROUNDING).all())
        for scores in (own, cross)
    )


def terms_of(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    r"""AIDE's own terms: $\log\hat\xi_{own} - \log\hat\xi_{other}$ at gold and target outputs."""
    num_gold, num_target = draws.num_meta_gold, draws.num_meta_target
    return (
        draws.gold.kept(num_gold) - draws.gold.scored(num_target),
        draws.target.kept(num_target) - draws.target.scored(num_gold),
    )


def log_z_bounds_of(
    draws: Draws, gold_terms: np.ndarray, target_terms: np.ndarray
) -> LogZBounds | None:
    r"""Evidence bounds, where exactly one of the two $\log Z$ is unknown."""
    gold_z, target_z = draws.log_z
    if gold_z is None and target_z is not None:
        high, low, shift, name = mean_of(gold_terms), mean_of(-target_terms), target_z, "gold"
    elif target_z is None and gold_z is not None:
        high, low, shift, name = mean_of(target_terms), mean_of(-gold_terms), gold_z, "target"
    else:
        return None
    lower = Mean(low.value + shift, low.std_error)
    return LogZBounds(name, lower, Mean(high.value + shift, high.std_error))


def kl_bounds_of(draws: Draws) -> KlBounds:
    r"""Where $p$ is tractable and $Z$ known on both sides, $KL(q \| p)$ from both sides.

    $KL(q \| p) = E_{x \sim q}[\log q(x) - \log p(x)]$, and at $x \sim q$ the own trace gives an
    upper, pure `regenerate` draws a lower estimate of $\log q(x)$.
    """
    gold_z, target_z = draws.log_z
    if gold_z is None or target_z is None:
        return KlBounds(None, None)
    forward = backward = None
    num_gold, num_target = draws.num_meta_gold, draws.num_meta_target
    if is_tractable(draws, "target"):
        exact = draws.gold.scored(num_target) - target_z + gold_z
        forward = _bracket(draws.gold, num_gold, exact)
    if is_tractable(draws, "gold"):
        exact = draws.target.scored(num_gold) - gold_z + target_z
        backward = _bracket(draws.target, num_target, exact)
    return KlBounds(forward, backward)


def _bracket(side: Side, num_meta: int, exact: np.ndarray) -> Bracket | None:
    fresh = side.fresh(num_meta)
    if fresh is None:
        return None
    return Bracket(mean_of(fresh - exact), mean_of(side.kept(num_meta) - exact))


def meta_curve_of(draws: Draws, role: str) -> MetaCurve:
    """The estimate for M = 1, 2, … of `role`, from the same draws, own trace always kept."""
    sides = (draws.gold, draws.target) if role == "gold" else (draws.target, draws.gold)
    num = draws.num_meta_gold if role == "gold" else draws.num_meta_target
    fixed = draws.num_meta_target if role == "gold" else draws.num_meta_gold
    own = running_log_mean_exp(sides[0].own[:, :num]) - sides[0].scored(fixed)[:, None]
    cross = sides[1].kept(fixed)[:, None] - running_log_mean_exp(sides[1].cross[:, :num])
    columns = [(mean_of(own[:, m]), mean_of(cross[:, m])) for m in range(num)]
    value = np.array([a.value + b.value for a, b in columns])
    std_error = np.array([np.hypot(a.std_error, b.std_error) for a, b in columns])
    return MetaCurve(np.arange(1, num + 1), value, std_error)
