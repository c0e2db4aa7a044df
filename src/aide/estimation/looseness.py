r"""What meta-inference adds to the estimate, and how far the bound would fall with more of it.

AIDE's excess over the divergence is a sum over both algorithms and both algorithms' outputs. With
$w = \xi/(Zq(x))$, which has mean 1 under `regenerate`, and $\bar w_M$ an average of $M$ of them, an
algorithm adds $E[\bar w_M \log\bar w_M]$ at its own outputs (the run's own trace is among the M)
and $-E[\log\bar w_M]$ at the other's. The looseness is the sum of both at its own outputs.

The prediction takes $\log w$ to be normal, with the variance that gives the looseness measured at
the present M. The excess then falls like $1/M$ once $M$ exceeds $e^{KL}$, and more slowly before.
The draws show how the bound fell from M/2 to M at the algorithm's own outputs and, if M > 1, at the
other's; where that indicates a smaller variance, the smaller one is used. A predicted fall never
exceeds the looseness. The prediction has no confidence level: it was within a third for continuous
traces and M > 1, within a factor of 2 at M = 1, and off by factors of 2 to 7 where traces are
discrete labels. So it decides between pieces of advice, and is not printed.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from aide._core.numerics import row_log_mean_exp, running_log_mean_exp
from aide._core.types import Role
from aide.engine.draws import Draws, Side
from aide.estimation.terms import Mean, mean_of, scores_at

FEWEST_RUNS = 20
"""Least runs for single runs to be reported as dominating the looseness."""
DOMINANT_SHARE = 0.5
"""Share of the sum of all gaps from which on few runs dominate: as much as all others together."""
DOMINANT_NATS = 0.05
"""Least nats by which a dominant run changes the looseness; smaller looseness counts as tight."""
MOST_DOMINANT = 0.05
"""Largest share of the runs that can be dominant, apart from a single run: a choice."""
MOST_NAMED = 3
"""Largest number of gaps that a sentence names."""


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


class DominantRuns(NamedTuple):
    """One run or few runs that make up most of a looseness.

    Attributes:
        gaps: The gaps of these runs in nats, the largest first.
        rest: The mean gap of all other runs, in nats.
        num_runs: Number of all runs.
    """

    gaps: tuple[float, ...]
    rest: float
    num_runs: int

    @property
    def subject(self) -> str:
        """The runs and their verb: `One run of 500 dominates`, `3 runs of 500 dominate`."""
        num = len(self.gaps)
        if num == 1:
            return f"One run of {self.num_runs:,} dominates"
        return f"{num} runs of {self.num_runs:,} dominate"

    @property
    def words(self) -> str:
        """Their gaps, and the mean gap of all other runs."""
        shown = ", ".join(f"{gap:.2g}" for gap in self.gaps[:MOST_NAMED])
        more = " and less" if len(self.gaps) > MOST_NAMED else ""
        subject = "its gap is" if len(self.gaps) == 1 else "their gaps are"
        return f"{subject} {shown}{more} nats, the mean over all others is {self.rest:.2g}"


def dominant_runs_of(draws: Draws, role: Role) -> DominantRuns | None:
    """The few runs that dominate the looseness of an algorithm, if there are such runs."""
    side = draws.side(role)
    fresh = side.fresh()
    return None if fresh is None else dominant_runs(side.kept() - fresh)


def dominant_runs(gaps: np.ndarray) -> DominantRuns | None:
    """The runs that dominate the mean of these gaps, if few do.

    Such a mean has a standard error about as large as itself and says nothing about other runs.
    Named are all runs with a large gap or, if these are many, the fewest that dominate.
    """
    sizes = np.abs(gaps)
    if gaps.size < FEWEST_RUNS or not np.all(np.isfinite(gaps)) or not np.any(sizes > 0):
        return None
    order = np.argsort(-sizes, kind="stable")
    num = 1 + int(np.argmax(np.cumsum(sizes[order]) >= DOMINANT_SHARE * sizes.sum()))
    most = max(1, int(MOST_DOMINANT * gaps.size))
    num_large = int((sizes >= DOMINANT_NATS * gaps.size).sum())
    if num > min(most, num_large):
        return None
    chosen = order[: num_large if num_large <= most else num]
    rest = float(np.delete(gaps, chosen).mean())
    return DominantRuns(tuple(gaps[chosen].tolist()), rest, gaps.size)


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


LEADING_DIGITS = (1, 2, 3, 4, 5, 7)
"""Leading digits of the round numbers of meta-inference runs that advice names."""
MOST_META = 1000
"""Largest M that advice names, unless twice the present M is larger."""
NUM_SAMPLES = 200
"""Fixed normal samples (and their mirror images) that stand for the expectation over log w."""
WORTHWHILE = 0.05
"""Least share of the bound by which it must be predicted to fall for advice to be given."""
ENOUGH = 0.8
"""Advice names the smallest M with this share of the fall that the largest M would bring."""


class Advice(NamedTuple):
    """Raise M of one algorithm.

    Attributes:
        role: The algorithm.
        num_meta: The M to raise it to.
        fall: Predicted fall of the bound in nats.
        remaining: Nats that meta-inference of this algorithm would still add, as predicted.
    """

    role: Role
    num_meta: int
    fall: Mean
    remaining: float


class Forecast(NamedTuple):
    """Predictions for every M from 1 on.

    Attributes:
        falls: Fall of the bound in nats, 0 up to the present M.
        remaining: Nats that meta-inference still adds.
        relative_error: Relative standard error of the measured looseness.
    """

    falls: np.ndarray
    remaining: np.ndarray
    relative_error: float


def predict_falls(draws: Draws, role: Role, most: int) -> Forecast | None:
    """Predict for M up to `most`; `None` if the looseness was not measured or is infinite."""
    side, other = draws.side(role), draws.side(role.other)
    now, gap = side.num_meta, looseness_of(draws).of(role)
    if gap is None or not np.isfinite(gap.value) or not np.isfinite(gap.std_error):
        return None
    if gap.value <= 0.0:
        return Forecast(np.zeros(most), np.zeros(most), 0.0)
    at_own = _solve(lambda v: float(sum(part[-1] for part in _excess(v, now))), gap.value)
    at_own = min(at_own, _variance_of_fall(_halving(side.own[:, : now + 1], 1), 0, now + 1))
    at_other = min(at_own, _variance_of_fall(-_halving(other.cross[:, :now], 0), 1, now))
    own, cross = _excess(at_own, most)[0], _excess(at_other, most)[1]
    falls = own[now - 1] - own + cross[now - 1] - cross
    falls[:now] = 0.0
    falls = np.clip(np.maximum.accumulate(falls), 0.0, gap.value)
    return Forecast(falls, own + cross, gap.std_error / gap.value)


def find_advice(draws: Draws, value: float, std_error: float) -> tuple[Advice, ...]:
    """For each algorithm the smallest M with `ENOUGH` of the possible fall, if it is worthwhile."""
    found = []
    for role in Role:
        now, gap = draws.side(role).num_meta, looseness_of(draws).of(role)
        most = max(MOST_META, 2 * now)
        smallest = max(std_error, WORTHWHILE * abs(value), 1e-3)
        if gap is None or not np.isfinite(value) or gap.value < max(smallest, 2 * gap.std_error):
            continue
        forecast = predict_falls(draws, role, most)
        if forecast is None or forecast.falls[-1] < smallest:
            continue
        for num_meta in (*_round_numbers(now, most), most):
            fall = float(forecast.falls[num_meta - 1])
            if fall >= ENOUGH * forecast.falls[-1]:
                mean = Mean(fall, forecast.relative_error * fall)
                remaining = float(forecast.remaining[num_meta - 1])
                found.append(Advice(role, num_meta, mean, remaining))
                break
    return tuple(found)


def _round_numbers(above: int, most: int) -> list[int]:
    tens = (10**k for k in range(7))
    return [step * ten for ten in tens for step in LEADING_DIGITS if above < step * ten < most]


def _excess(variance: float, num_meta: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Excess at own and at the other's outputs up to `num_meta`, with $\log w \sim N(-v/2, v)$."""
    log_w = np.sqrt(variance) * _noise(num_meta) - variance / 2
    pure = running_log_mean_exp(log_w).mean(axis=0)
    log_w[:, 0] += variance  # given the output, the run's own trace has the density w r
    return running_log_mean_exp(log_w).mean(axis=0), -pure


@cache
def _noise(num_meta: int) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((num_meta, NUM_SAMPLES)).T
    return np.concatenate([noise, -noise])


def _halving(scores: np.ndarray, num_kept: int) -> float:
    r"""Mean difference between $\log\hat\xi$ from half of the columns and from all of them.

    The first `num_kept` columns are in both halves. NaN with fewer than two columns.
    """
    half = scores.shape[1] // 2
    if half < 1 or np.isinf(scores).any():
        return np.nan
    kept, rest = scores[:, :num_kept], scores[:, num_kept:]
    first = np.concatenate([kept, rest[:, : half - num_kept]], axis=1)
    second = np.concatenate([kept, rest[:, rest.shape[1] - half + num_kept :]], axis=1)
    halves = 0.5 * (row_log_mean_exp(first) + row_log_mean_exp(second))
    return float(np.mean(halves - row_log_mean_exp(scores)))


def _variance_of_fall(seen: float, part: int, now: int) -> float:
    """The variance for which one part of the excess falls from M/2 to M by `seen` nats.

    Where the variance is huge, the excess at own outputs falls by the logarithm of the ratio of
    both numbers, whatever the variance: a fall near that value says nothing about the variance.
    """
    if np.isnan(seen) or (part == 0 and seen > 0.9 * np.log(now / (now // 2))):
        return np.inf

    def fall(variance: float) -> float:
        excess = _excess(variance, now)[part]
        return float(excess[now // 2 - 1] - excess[-1])

    return _solve(fall, seen) if seen > 0 else 0.0


def _solve(function: Callable[[float], float], wanted: float) -> float:
    """The variance at which an increasing function reaches `wanted`, by bisection."""
    low, high = 0.0, 1.0
    while function(high) < wanted and high < 1e4:
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return 0.5 * (low + high)
