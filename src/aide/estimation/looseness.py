"""What meta-inference adds to the estimate, as far as the draws show it, and the fall with M."""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import row_log_mean_exp, running_log_mean_exp
from aide._core.types import Role
from aide.engine.draws import Draws
from aide.engine.runs import Side
from aide.estimation.terms import Mean, mean_of, scores_at

FEWEST_RUNS = 20
"""Number of runs from which on one of them may be said to rule the looseness."""
DOMINANT_SHARE = 0.5
"""Share of the sum of all gaps from which on one run rules the looseness: as much as all others."""
DOMINANT_NATS = 0.05
"""Nats by which such a run must change the looseness; estimates call less than that tight."""


class Looseness(NamedTuple):
    r"""How loose meta-inference is, per algorithm, at the algorithm's own outputs.

    The average gap between its upper and lower estimate of $\log q(x)$ there, which bounds what
    meta-inference adds to the estimate at these outputs, in expectation. It says nothing about the
    other algorithm's outputs (`fall_at_other` does, if M > 1). 0 for tractable algorithms; `None` if
    it was not drawn.
    """

    gold: Mean | None
    target: Mean | None

    def of(self, role: Role) -> Mean | None:
        """That of one algorithm."""
        return self[role]


def looseness_of(draws: Draws) -> Looseness:
    r"""Mean of $\log\hat\xi$ with the real trace less that from `regenerate` alone, M traces each.

    `None` for an algorithm of which the one trace more was not drawn.
    """

    def gap(side: Side) -> Mean | None:
        fresh = side.fresh()
        rows = draws.sequences(side.role)
        return None if fresh is None else mean_of(side.kept() - fresh, rows)

    return Looseness(gap(draws.gold), gap(draws.target))


class DominantRun(NamedTuple):
    """One run that makes up most of a looseness.

    Attributes:
        gap: Its own, in nats.
        rest: The mean over all other runs.
        num_runs: How many there are in all.
    """

    gap: float
    rest: float
    num_runs: int


def dominant_run_of(draws: Draws, role: Role) -> DominantRun | None:
    """The run that rules the looseness of an algorithm, if one does."""
    side = draws.side(role)
    fresh = side.fresh()
    return None if fresh is None else dominant_run(side.kept() - fresh)


def dominant_run(gaps: np.ndarray) -> DominantRun | None:
    """The run that rules the mean of these gaps, if one does.

    A mean of unbounded gaps with a standard error as large as itself says nothing about the others.
    """
    sizes = np.abs(gaps)
    if gaps.size < FEWEST_RUNS or not np.all(np.isfinite(gaps)) or not np.any(sizes > 0):
        return None
    place = int(np.argmax(sizes))
    if sizes[place] < DOMINANT_SHARE * sizes.sum() or sizes[place] < DOMINANT_NATS * gaps.size:
        return None
    return DominantRun(float(gaps[place]), float(np.delete(gaps, place).mean()), gaps.size)


def fall_at_other(draws: Draws, role: Role) -> Mean | None:
    r"""How far the bound fell from M/2 to M of `role` at the other algorithm's outputs.

    $E[\log\hat\xi_M - \log\hat\xi_{M/2}]$ there, which is never negative: the second meter, for
    what the looseness does not see. `None` with M = 1.
    """
    cross, num = draws.side(role.other).cross, draws.side(role).num_meta
    half = num // 2
    if half < 1:
        return None
    whole = row_log_mean_exp(cross[:, :num])
    first = row_log_mean_exp(cross[:, :half])
    second = row_log_mean_exp(cross[:, num - half : num])
    found = whole > -np.inf  # where no trace explains the output, nothing has fallen yet
    falls = np.zeros(whole.size)
    falls[found] = whole[found] - 0.5 * (first[found] + second[found])
    return mean_of(falls, draws.sequences(role.other))


class MetaCurve(NamedTuple):
    """The estimate for every smaller number of meta-inference runs of one algorithm."""

    num_meta: np.ndarray
    value: np.ndarray
    std_error: np.ndarray


def meta_curve_of(draws: Draws, role: Role) -> MetaCurve:
    """The estimate for M = 1, 2, … of `role`, from the same draws, own trace always kept."""
    mine, theirs = draws.side(role), draws.side(role.other)
    num = mine.num_meta
    own = running_log_mean_exp(mine.own[:, :num]) - scores_at(draws, role).other[:, None]
    cross = running_log_mean_exp(theirs.cross[:, :num])
    cross = scores_at(draws, role.other).own[:, None] - cross
    rows = draws.sequences(role), draws.sequences(role.other)
    columns = [(mean_of(own[:, m], rows[0]), mean_of(cross[:, m], rows[1])) for m in range(num)]
    value = np.array([a.value + b.value for a, b in columns])
    std_error = np.array([np.hypot(a.std_error, b.std_error) for a, b in columns])
    return MetaCurve(np.arange(1, num + 1), value, std_error)
