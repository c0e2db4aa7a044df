"""The columns of a comparison. Another one is one more entry of `COLUMNS`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from aide.estimation.closeness import Closeness
from aide.estimation.means import Mean
from aide.estimation.summary import Estimate
from aide.reporting.numbers import short, with_error


class TargetRow(NamedTuple):
    """One target, measured.

    Attributes:
        name: What it is called.
        estimate: AIDE against the gold standard.
        closeness: Limits beside the tolerance, if there is one.
        rank: 1 for the smallest bound.
        behind: How far its bound is above the smallest one, paired run by run; `None` for that one.
    """

    name: str
    estimate: Estimate
    closeness: Closeness | None
    rank: int = 1
    behind: Mean | None = None


class Column(NamedTuple):
    """One column.

    Attributes:
        title: What stands above.
        text: The cell of an entry.
        numbers: What the cell says, by name, for records.
        applies: Whether it says anything about an entry; shown if it does about one.
        is_text: Whether cells are words.
    """

    title: str
    text: Callable[[TargetRow], str]
    numbers: Callable[[TargetRow], dict[str, Any]]
    applies: Callable[[TargetRow], bool] = lambda entry: True
    is_text: bool = False


def slack_of(estimate: Estimate) -> float | None:
    """Looseness of both algorithms, each at its own outputs; `None` if it was not drawn."""
    gaps = [gap.value for gap in estimate.looseness if gap is not None]
    return float(max(sum(gaps), 0.0)) if gaps else None


def verdict_of(entry: TargetRow) -> str:
    """The outcome at the tolerance; what to do about none is said below the table."""
    closeness = entry.closeness
    if closeness is None:
        return ""
    if closeness.outcome == "within":
        return f"within {closeness.tolerance:g}"
    if closeness.outcome == "too far":
        return f"too coarse, ≥ {short(closeness.lower, 2)}"
    return closeness.outcome


def _divergence(entry: TargetRow) -> dict[str, Any]:
    low, high = entry.estimate.interval()
    value, std_error = entry.estimate.value, entry.estimate.std_error
    return {"value": value, "std_error": std_error, "low": low, "high": high}


def _separable(entry: TargetRow) -> bool:
    return entry.estimate.gold_to_target.is_kl_bound


def _cell(number: float | None, digits: int = 2) -> str:
    return "–" if number is None else short(number, digits)


def _judged(entry: TargetRow) -> dict[str, Any]:
    if entry.closeness is None:
        return {"lower": None, "upper": None, "verdict": None}
    lower, upper, *_ = entry.closeness
    return {"lower": lower, "upper": upper, "verdict": entry.closeness.outcome}


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
        "divergence ≤",
        lambda e: with_error(e.estimate.value, e.estimate.std_error),
        _divergence,
    ),
    Column(
        "behind",
        lambda e: "–" if e.behind is None else with_error(*e.behind),
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
        lambda e: _cell(slack_of(e.estimate)),
        lambda e: {"looseness": slack_of(e.estimate)},
        lambda e: slack_of(e.estimate) is not None,
    ),
    Column(
        "P off ≤",
        lambda e: f"{e.estimate.total_variation():.2f}",
        lambda e: {"total_variation": e.estimate.total_variation()},
    ),
    Column(
        "M",
        lambda e: str(e.estimate.draws.target.num_meta),
        _sizes,
        lambda e: bool(e.estimate.look.words),
    ),
    Column("verdict", verdict_of, _judged, lambda e: e.closeness is not None, is_text=True),
)
