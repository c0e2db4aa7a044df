"""The columns of a comparison, and paired differences between targets.

To add a column, add an entry to `COLUMNS`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from aide._core.chains import Chains
from aide._core.types import Role
from aide.estimation.closeness import Closeness
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.find import MEAN, SD
from aide.estimation.errors.tolerance import ErrorCloseness
from aide.estimation.errors.words import interval_range, more_or_less
from aide.estimation.interval import importance_shape
from aide.estimation.summary import Estimate
from aide.estimation.terms import Mean, Metas, are_tractable, rests_on_one_density, terms_of
from aide.reporting.numbers import rounded_up, short, with_error


def difference_of(one: Estimate, other: Estimate, metas: Metas | None = None) -> Mean:
    r"""$\hat D_{one} - \hat D_{other}$ with its standard error, paired run by run.

    The gold standard's runs are the same in both, and run $i$ of either target has the same key.
    So pairs of terms are independent of each other, but the terms of a pair are not: the
    variance is that of their differences, $\sum_{sides}\mathrm{var}(t_i - t'_i)/N$. Runs that only
    one of the two has count as independent.

    Args:
        one: An estimate.
        other: Another estimate with the same gold standard.
        metas: M of both algorithms, the same for both bounds, since a bound falls as M grows; by
            default the largest that both have.
    """
    metas = metas or common_metas([one, other])
    parts = [terms_of(each.draws, metas) for each in (one, other)]
    value, variance = 0.0, 0.0
    for role in Role:
        first, second = (terms.at(role) for terms in parts)
        if np.isinf(first).any() or np.isinf(second).any():
            return Mean(bound_at(one, metas) - bound_at(other, metas), np.inf)
        value += float(first.mean() - second.mean())
        variance += _variance(first, second)
    return Mean(value, float(np.sqrt(variance)))


def common_metas(estimates: Sequence[Estimate]) -> Metas:
    """The largest M of either algorithm that all estimates have."""
    gold, target = (min(e.draws.side(role).num_meta for e in estimates) for role in Role)
    return Metas(gold, target)


def bound_at(estimate: Estimate, metas: Metas) -> float:
    r"""$\hat D$ from the first M traces of either algorithm."""
    return sum(float(part.mean()) for part in terms_of(estimate.draws, metas))


def _variance(first: np.ndarray, second: np.ndarray) -> float:
    r"""Variance of a difference of means of paired terms: $s^2/N + s'^2/N' - 2nc/(NN')$."""
    both = min(first.size, second.size)
    if both < 2:
        return np.nan
    covariance = float(np.cov(first[:both], second[:both])[0, 1])
    shared = 2 * covariance * both / (first.size * second.size)
    apart = first.var(ddof=1) / first.size + second.var(ddof=1) / second.size
    return max(float(apart) - shared, 0.0)


LEAST_FOR_TAIL = 25
"""Least number of weights for a tail fit."""


class TargetRow(NamedTuple):
    """One target, measured.

    Attributes:
        name: The name of the target.
        estimate: AIDE against the gold standard.
        closeness: Limits and the tolerance, if there is one.
        rank: 1 for the smallest bound at an M that all targets have; `None` for targets without a
            number.
        behind: Difference of the bound and the smallest one at that M, paired run by run; `None`
            for the smallest one, and for targets without a number.
    """

    name: str
    estimate: Estimate
    closeness: Closeness | ErrorCloseness | None
    rank: int | None = 1
    behind: Mean | None = None


class Column(NamedTuple):
    """One column.

    Attributes:
        title: The heading.
        text: The cell of a target.
        numbers: The numbers of the cell, by name, for records.
        applies: Whether a target has a cell; a column is shown if one target has.
        is_text: Whether cells are words.
    """

    title: str
    text: Callable[[TargetRow], str]
    numbers: Callable[[TargetRow], dict[str, Any]]
    applies: Callable[[TargetRow], bool] = lambda entry: True
    is_text: bool = False


def is_measured(estimate: Estimate) -> bool:
    """Whether the estimate is informative: not if both sides state one density everywhere."""
    return not rests_on_one_density(estimate.draws)


def errors_of(entry: TargetRow) -> Errors | None:
    """Errors of the variables; `None` without outputs or without a number."""
    kept = all(side.values is not None for side in entry.estimate.draws.sides)
    return entry.estimate.errors() if kept and is_measured(entry.estimate) else None


def total_looseness(estimate: Estimate) -> float | None:
    """Looseness of both algorithms, each at its own outputs; `None` if it was not measured."""
    gaps = [gap.value for gap in estimate.looseness if gap is not None]
    return float(max(sum(gaps), 0.0)) if gaps else None


def k_hat_of(estimate: Estimate) -> float | None:
    r"""$\hat k$ of the weights $\gamma(x)/q(x)$ at the target's outputs, which is no part of AIDE.

    `None` if all weights are equal, or a density is not exact: noise in a weight has a tail of its
    own. A target that misses a mode may have a small $\hat k$.
    """
    draws = estimate.draws
    if not are_tractable(draws) or draws.target.num_runs < LEAST_FOR_TAIL:
        return None
    return _finite(importance_shape(draws.target.cross[:, 0] - draws.target.own[:, 0]))


def chains_of(entry: TargetRow) -> Chains:
    """The chains of a target that is a fixed list of draws; else an empty `Chains`."""
    return entry.estimate.draws.target.chains or Chains(0, 0)


def verdict_of(entry: TargetRow) -> str:
    """The verdict; advice on undecided targets stands below the table."""
    return "" if entry.closeness is None else entry.closeness.cell


def _divergence(entry: TargetRow) -> dict[str, Any]:
    if not is_measured(entry.estimate):
        return dict.fromkeys(("value", "std_error", "low", "high"))
    low, high = entry.estimate.interval()
    value, std_error = entry.estimate.value, entry.estimate.std_error
    return {"value": value, "std_error": std_error, "low": low, "high": high}


def _bound(entry: TargetRow) -> str:
    estimate = entry.estimate
    return with_error(estimate.value, estimate.shown_error) if is_measured(estimate) else "–"


def _probability_error(entry: TargetRow) -> str:
    return rounded_up(entry.estimate.total_variation()) if is_measured(entry.estimate) else "–"


def _means_off(entry: TargetRow) -> str:
    errors = errors_of(entry)
    most = None if errors is None else errors.most(MEAN)
    return "–" if most is None else f"{rounded_up(most)} sd"


def _worst_sd(entry: TargetRow) -> str:
    errors = errors_of(entry)
    worst = None if errors is None else errors.worst(SD)
    if worst is None:
        return "–"
    name, error = worst
    return f"{more_or_less(error.error)} ({name})"


def _contents(entry: TargetRow) -> str:
    errors = errors_of(entry)
    held = None if errors is None else interval_range(errors.table.variables)
    if held is None:
        return "–"
    low, high = (f"{100 * share:.0f}" for share in held)
    return f"{low}%" if low == high else f"{low}–{high}%"


def _errors(entry: TargetRow) -> dict[str, Any]:
    errors = errors_of(entry)
    worst = None if errors is None else errors.worst(SD)
    held = None if errors is None else interval_range(errors.table.variables)
    low, high = (None, None) if held is None else held
    return {
        "means_off": None if errors is None else errors.most(MEAN),
        "worst_sd_ratio": None if worst is None else worst[1].error,
        "worst_sd": None if worst is None else worst[0],
        "interval_low": low,
        "interval_high": high,
    }


def _separable(entry: TargetRow) -> bool:
    return entry.estimate.gold_to_target.is_kl_bound and is_measured(entry.estimate)


def _cell(number: float | None, digits: int = 2) -> str:
    return "–" if number is None else short(number, digits)


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _judged(entry: TargetRow) -> dict[str, Any]:
    if entry.closeness is None:
        return {"lower": None, "upper": None, "verdict": None}
    return entry.closeness.numbers()


def _behind(entry: TargetRow) -> dict[str, Any]:
    value, std_error = (None, None) if entry.behind is None else entry.behind
    return {"rank": entry.rank, "behind": value, "behind_std_error": std_error}


def _sizes(entry: TargetRow) -> dict[str, Any]:
    gold, target = entry.estimate.draws.sides
    return {
        "num_target": target.num_runs,
        "num_meta_gold": gold.num_meta,
        "num_meta_target": target.num_meta,
    }


COLUMNS = (
    Column("target", lambda e: e.name, lambda e: {"target": e.name}, is_text=True),
    Column(
        "divergence ≤ (nats)",
        _bound,
        _divergence,
    ),
    Column("means off by at most", _means_off, _errors, lambda e: errors_of(e) is not None),
    Column("worst sd", _worst_sd, lambda e: {}, lambda e: errors_of(e) is not None, is_text=True),
    Column("90% intervals hold", _contents, lambda e: {}, lambda e: errors_of(e) is not None),
    Column(
        "any probability off by at most",
        _probability_error,
        lambda e: {"total_variation": e.estimate.total_variation()},
    ),
    Column(
        "above best",
        lambda e: _cell(None if e.behind is None else e.behind.value),
        _behind,
        lambda e: e.behind is not None,
    ),
    Column(
        "misses",
        lambda e: _cell(e.estimate.gold_to_target.value if _separable(e) else None),
        lambda e: {"gold_to_target": e.estimate.gold_to_target.value if _separable(e) else None},
        _separable,
    ),
    Column(
        "invents",
        lambda e: _cell(e.estimate.target_to_gold.value if _separable(e) else None),
        lambda e: {"target_to_gold": e.estimate.target_to_gold.value if _separable(e) else None},
        _separable,
    ),
    Column(
        "looseness",
        lambda e: _cell(total_looseness(e.estimate)),
        lambda e: {"looseness": total_looseness(e.estimate)},
        lambda e: total_looseness(e.estimate) is not None,
    ),
    Column(
        "k-hat",
        lambda e: _cell(k_hat_of(e.estimate)),
        lambda e: {"k_hat": k_hat_of(e.estimate)},
        lambda e: k_hat_of(e.estimate) is not None,
    ),
    Column(
        "R-hat",
        lambda e: _cell(_finite(chains_of(e).rhat), 4),
        lambda e: {"rhat": _finite(chains_of(e).rhat)},
        lambda e: chains_of(e).size > 0,
    ),
    Column(
        "ESS",
        lambda e: _cell(_finite(chains_of(e).effective), 3),
        lambda e: {"ess": _finite(chains_of(e).effective)},
        lambda e: chains_of(e).size > 0,
    ),
    Column(
        "M",
        lambda e: str(e.estimate.draws.target.num_meta),
        _sizes,
        lambda e: bool(e.estimate.look.words),
    ),
    Column("verdict", verdict_of, _judged, lambda e: e.closeness is not None, is_text=True),
)

LEAVE_FIRST = (
    *("k-hat", "ESS", "R-hat", "misses", "invents", "looseness", "M", "above best"),
    *("worst sd", "90% intervals hold"),  # sentences below the table name the worst variables
)
"""Columns that a narrow terminal leaves out, in this order."""
