"""What meta-inference adds to the estimate, as far as the draws show it, and the fall with M."""

from typing import NamedTuple

import numpy as np

from aide._core.numerics import row_log_mean_exp, running_log_mean_exp
from aide._core.types import Role
from aide.engine.draws import Draws, Side
from aide.estimation.terms import Mean, mean_of, scores_at

FEWEST_RUNS = 20
"""Least runs for a single run to be reported as dominating the looseness."""
DOMINANT_SHARE = 0.5
"""Share of the sum of all gaps from which on one run dominates: as much as all others together."""
DOMINANT_NATS = 0.05
"""Least nats by which a dominant run changes the looseness; smaller looseness counts as tight."""


class Looseness(NamedTuple):
    r"""How loose meta-inference of each algorithm is, at the algorithm's own outputs.

    It is the average gap between the upper and the lower estimate of $\log q(x)$ at these outputs,
    which in expectation bounds what meta-inference adds to AIDE's estimate there. It says nothing
    about the other algorithm's outputs (`fall_at_other` does, if M > 1). It is 0 for tractable
    algorithms, and `None` if the extra meta-inference run was not drawn.
    """

    gold: Mean | None
    target: Mean | None

    def of(self, role: Role) -> Mean | None:
        """The looseness of one algorithm."""
        return self[role]


def looseness_of(draws: Draws) -> Looseness:
    r"""Mean difference of two $\log\hat\xi$ of M traces each, with and without the run's own trace.

    `None` for an algorithm whose extra meta-inference run was not drawn.
    """

    def gap(side: Side) -> Mean | None:
        fresh = side.fresh()
        rows = draws.sequences(side.role)
        return None if fresh is None else mean_of(side.kept() - fresh, rows)

    return Looseness(gap(draws.gold), gap(draws.target))


class DominantRun(NamedTuple):
    """One run that makes up most of a looseness.

    Attributes:
        gap: The gap of this run, in nats.
        rest: The mean gap of all other runs, in nats.
        num_runs: Number of all runs.
    """

    gap: float
    rest: float
    num_runs: int


def dominant_run_of(draws: Draws, role: Role) -> DominantRun | None:
    """The run that dominates the looseness of an algorithm, if one does."""
    side = draws.side(role)
    fresh = side.fresh()
    return None if fresh is None else dominant_run(side.kept() - fresh)


def dominant_run(gaps: np.ndarray) -> DominantRun | None:
    """The run that dominates the mean of these gaps, if one does.

    Such a mean has a standard error as large as itself and says nothing about the other runs.
    """
    sizes = np.abs(gaps)
    if gaps.size < FEWEST_RUNS or not np.all(np.isfinite(gaps)) or not np.any(sizes > 0):
        return None
    largest = int(np.argmax(sizes))
    if sizes[largest] < DOMINANT_SHARE * sizes.sum() or sizes[largest] < DOMINANT_NATS * gaps.size:
        return None
    return DominantRun(float(gaps[largest]), float(np.delete(gaps, largest).mean()), gaps.size)


def fall_at_other(draws: Draws, role: Role) -> Mean | None:
    r"""Nats by which the bound fell at the other algorithm's outputs as M of `role` was doubled.

    It estimates $E[\log\hat\xi_M - \log\hat\xi_{M/2}]$, which is never negative, at the outputs
    that the looseness says nothing about. `None` with M = 1.
    """
    cross, num = draws.side(role.other).cross, draws.side(role).num_meta
    half = num // 2
    if half < 1:
        return None
    whole = row_log_mean_exp(cross[:, :num])
    first = row_log_mean_exp(cross[:, :half])
    second = row_log_mean_exp(cross[:, num - half : num])
    found = whole > -np.inf  # where no trace explains the output, the bound has not fallen yet
    falls = np.zeros(whole.size)
    falls[found] = whole[found] - 0.5 * (first[found] + second[found])
    return mean_of(falls, draws.sequences(role.other))


class MetaCurve(NamedTuple):
    """AIDE's estimate and its standard error for M = 1, 2, … of one algorithm."""

    num_meta: np.ndarray
    value: np.ndarray
    std_error: np.ndarray


def meta_curve_of(draws: Draws, role: Role) -> MetaCurve:
    """The estimate for M = 1, 2, … of `role`, from the same draws; trace 1 is the run's own."""
    side, other = draws.side(role), draws.side(role.other)
    num = side.num_meta
    own = running_log_mean_exp(side.own[:, :num]) - scores_at(draws, role).other[:, None]
    cross = running_log_mean_exp(other.cross[:, :num])
    cross = scores_at(draws, role.other).own[:, None] - cross
    rows = draws.sequences(role), draws.sequences(role.other)
    columns = [(mean_of(own[:, m], rows[0]), mean_of(cross[:, m], rows[1])) for m in range(num)]
    value = np.array([a.value + b.value for a, b in columns])
    std_error = np.array([np.hypot(a.std_error, b.std_error) for a, b in columns])
    return MetaCurve(np.arange(1, num + 1), value, std_error)
