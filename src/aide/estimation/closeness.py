"""Is the target within a tolerance? The verdict by both limits, and what would decide it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from aide._core.types import Role
from aide.engine.draws import Side
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    as_tolerance,
    judge_errors,
    tolerance_words,
)
from aide.estimation.looseness import MOST_META, fall_at_other, predict_falls
from aide.estimation.sandwich.balance import balanced_limits, balanced_terms
from aide.estimation.sandwich.sandwich import what_is_missing
from aide.estimation.terms import are_tractable, rests_on_one_density
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict, short

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

LEVEL = 0.95
"""Probability with which every verdict holds; each limit alone fails with probability 2.5%."""
RUNS_FIRST_FACTOR = 100.0
"""Multiple of the present runs up to which more runs are advised before a larger M."""
LEAST_FACTOR = 4.0
"""Least multiple of the present runs to advise where the lower limit must decide."""
MOST_FACTOR = 1e4
"""Largest multiple of the present runs that is given as advice."""
LOOSE_SHARE = 0.1
"""Share of the bound by which its last fall with M must exceed for a larger M to be advised."""
LARGER_META = 10
"""Multiple of the present M that is advised where no prediction can be made."""
NOISY_SHARE = 0.2
"""Least share of the variance for the runs of an algorithm to be raised."""


class Closeness(NamedTuple):
    """Limits of a divergence beside a tolerance.

    Attributes:
        lower: Lower limit at 95%, by `Estimate.sandwich`; 0, which always holds, where the upper
            limit decides or there is no lower one.
        upper: Upper limit at 95%, that of `Estimate.sandwich`, not counting outputs of mass
            `Estimate.unseen`; infinite where both algorithms state the same density everywhere,
            which says nothing about their outputs.
        tolerance: Largest divergence in nats that is good enough.
        lacks: Why there is no lower limit, in words; empty if there is one.
    """

    lower: float
    upper: float
    tolerance: float
    lacks: str

    @property
    def outcome(self) -> Verdict:
        """`passed` (below the tolerance), `failed` (above it) or `undecided`.

        Law: each of the first two is false with probability 2.5% at most.
        """
        if self.upper <= self.tolerance:
            return PASSED
        return FAILED if self.lower > self.tolerance else UNDECIDED

    @property
    def cell(self) -> str:
        """The verdict for a table."""
        return f"{FAILED}: ≥ {short(self.lower, 2)}" if self.outcome == FAILED else self.outcome

    def numbers(self) -> dict[str, Any]:
        """Both limits and the verdict, for records."""
        return {"lower": self.lower, "upper": self.upper, "verdict": self.outcome}

    @property
    def limits(self) -> str:
        """Both limits in words."""
        return f"{short(self.lower)} ≤ divergence ≤ {short(self.upper)} (95%)"


class NotWithin(AssertionError):
    """A divergence was not shown to be within a tolerance.

    Attributes:
        closeness: The limits, and whether the verdict is `failed` or `undecided`.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> try:
        ...     estimate.require(0.01)
        ... except aide.estimation.NotWithin as error:
        ...     print(error.closeness.outcome)
        failed
    """

    def __init__(self, words: str, closeness: "Closeness | ErrorCloseness"):
        super().__init__(words)
        self.closeness = closeness


@overload
def judge(estimate: "Estimate", tolerance: float) -> Closeness: ...
@overload
def judge(
    estimate: "Estimate", tolerance: str | Mapping[str, float] | ErrorTolerance
) -> "Closeness | ErrorCloseness": ...
def judge(estimate: "Estimate", tolerance: Any) -> "Closeness | ErrorCloseness":
    """The verdict on a tolerance in nats or on errors (see `as_tolerance`)."""
    wanted = as_tolerance(tolerance)
    if isinstance(wanted, ErrorTolerance):
        return judge_errors(estimate, wanted)
    return judge_nats(estimate, wanted)


def judge_nats(estimate: "Estimate", tolerance: float) -> Closeness:
    """The verdict on a tolerance in nats; trains a classifier only if the bound is above it."""
    draws = estimate.draws
    if rests_on_one_density(draws):
        return Closeness(0.0, np.inf, tolerance, "")
    lower, upper = balanced_limits(draws, estimate.look.level(LEVEL))
    if are_tractable(draws):
        return Closeness(lower if upper > tolerance else 0.0, upper, tolerance, "")
    lacks = what_is_missing(draws)
    # The lower limit is below the bound: it cannot exceed the tolerance if the bound does not.
    hopeless = bound_of(estimate) <= tolerance
    lower = 0.0 if hopeless or lacks else estimate.sandwich(LEVEL).lower
    return Closeness(lower, upper, tolerance, lacks)


def require(estimate: "Estimate", tolerance: Any) -> None:
    """Raise `NotWithin`, with both limits and what would help, unless the verdict is `passed`."""
    found = judge(estimate, tolerance)
    if found.outcome == PASSED:
        return
    target, gold = estimate.draws.target.name, estimate.draws.gold.name
    wanted = tolerance_words(found.tolerance)
    words = f"{target} is not shown to be within {wanted} of {gold}: {found.limits}"
    if found.outcome == FAILED:
        raise NotWithin(f"{words}. It is too far away.", found)
    raise NotWithin(f"{words}. Undecided: {remedy(estimate, found)}.", found)


def remedy(estimate: "Estimate", closeness: "Closeness | ErrorCloseness") -> str:
    """What would decide an undecided verdict, in words, with predicted numbers of runs or M."""
    if isinstance(closeness, ErrorCloseness):
        return closeness.remedy
    if rests_on_one_density(estimate.draws):
        return "test the samplers with aide.check"
    bound = bound_of(estimate)
    if bound < closeness.tolerance and _factor(bound, closeness) < RUNS_FIRST_FACTOR:
        return _more_runs(estimate, bound, closeness)
    raised = metas_to_raise(estimate, closeness.tolerance)
    if raised:
        wanted = [f"num_meta_{role.word} to about {num:,}" for role, num in raised.items()]
        return f"raise {' and '.join(wanted)}"
    for advice in estimate.advice:
        if advice.remaining > advice.fall.value:
            return (
                f"improve meta-inference of the {advice.role.word}: a larger M alone would not do"
            )
    if "keep_values" in closeness.lacks:
        return "keep the outputs (keep_values=True)"
    return _more_runs(estimate, bound, closeness)


def bound_of(estimate: "Estimate") -> float:
    r"""AIDE's estimate of $E[\hat D]$ by balanced terms, on which the limits rest, too."""
    return float(sum(part.mean() for part in balanced_terms(estimate.draws)))


def metas_to_raise(estimate: "Estimate", tolerance: float) -> dict[Role, int]:
    """The larger M of either algorithm that is predicted to lower the bound; empty if none is.

    If `Estimate.advice` says that a larger M helps, it is the M of the advice, or the M at which
    meta-inference is predicted to add a quarter of the tolerance if that is larger. The advice
    looks at an algorithm's own outputs. Where it says nothing, but the last doubling of M lowered
    the bound by `LOOSE_SHARE` or more at the other algorithm's outputs, it is ten times the present
    M.
    """
    found = {}
    for advice in estimate.advice:
        if advice.remaining <= advice.fall.value:
            forecast = predict_falls(estimate.draws, advice.role, MOST_META)
            remaining = np.empty(0) if forecast is None else forecast.remaining
            enough = [rounded(int(m) + 1) for m in np.flatnonzero(remaining < tolerance / 4)[:1]]
            found[advice.role] = max(advice.num_meta, *enough, 1)
    advised = {advice.role for advice in estimate.advice}
    for role in set(Role) - advised:
        fall = fall_at_other(estimate.draws, role)
        if fall is not None and fall.value > max(
            LOOSE_SHARE * bound_of(estimate), 2 * fall.std_error
        ):
            found[role] = LARGER_META * estimate.draws.side(role).num_meta
    return dict(sorted(found.items()))


def _factor(bound: float, closeness: Closeness) -> float:
    r"""The multiple of the present runs with which one of the limits would decide.

    The distance of a limit from the bound $b$ shrinks like $1/\sqrt N$, and must shrink to
    $|b - tolerance|$: $N' = N\,(distance/|b - tolerance|)^2$.
    """
    is_below = bound <= closeness.tolerance
    distance = closeness.upper - bound if is_below else bound - closeness.lower
    return float((distance / max(abs(bound - closeness.tolerance), 1e-12)) ** 2)


def _more_runs(estimate: "Estimate", bound: float, closeness: Closeness) -> str:
    """Numbers of runs with which the limit that can decide would decide.

    For the upper limit, only an algorithm whose terms have a share of `NOISY_SHARE` of the variance
    needs more runs; for the lower limit, the classifier needs more runs of both.
    """
    sides = estimate.draws.sides
    if not np.isfinite(bound):
        return _raised([(side, 10 * side.num_runs) for side in sides], in_numbers=False)
    factor = _factor(bound, closeness)
    if bound > closeness.tolerance:  # gains of a classifier from more runs are hard to predict
        factor = max(factor, LEAST_FACTOR)
    if factor > MOST_FACTOR:
        return (
            f"the bound, {short(bound)}, is so near the tolerance that no affordable number of "
            "runs decides: choose another tolerance"
        )
    variances = np.array([part.var() / part.size for part in balanced_terms(estimate.draws)])
    shares = variances / max(variances.sum(), 1e-300)
    wanted = [
        (side, rounded(side.num_runs * max(factor, 1.1)))
        for side, share in zip(sides, shares, strict=True)
        if share > NOISY_SHARE or bound > closeness.tolerance
    ]
    return _raised(wanted)


def _raised(wanted: Sequence[tuple[Side, int]], in_numbers: bool = True) -> str:
    """`raise num_gold to about 900`; of stored draws at most the number that is stored."""
    runs, lists = [], []
    for side, num in wanted:
        most = num if side.chains is None else min(num, side.chains.size)
        if most > side.num_runs:
            runs.append(f"num_{side.role.word}" + (f" to about {most:,}" if in_numbers else ""))
        if most < num:
            about = f" (about {num:,})" if in_numbers else ""
            lists.append(f"more draws of {side.name} than the {most:,} that it holds{about}")
    parts = [f"raise {' and '.join(runs)}"] if runs else []
    return " and ".join([*parts, *(f"give {text}" for text in lists)])


def rounded(number: float) -> int:
    """A number of runs, rounded up to two digits."""
    unit = 10 ** max(int(np.floor(np.log10(number))) - 1, 0)
    return int(np.ceil(number / unit) * unit)


def check_tolerance(tolerance: float) -> None:
    """Raise unless the tolerance is a positive number of nats."""
    if not tolerance > 0:
        raise ValueError(f"tolerance must be a positive number of nats, got {tolerance}.")
