"""Tolerances for errors of means, sds and probabilities, and verdicts on these errors."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aide.estimation.errors.find import BELOW, INTERVAL, MEAN, PROBABILITY, SD, ErrorOf
from aide.estimation.errors.words import named, percent
from aide.reporting.numbers import (
    FAILED,
    PASSED,
    UNDECIDED,
    Verdict,
    all_of,
    in_nats,
    rounded_up,
    short,
)

if TYPE_CHECKING:
    from aide.estimation.errors.errors import Errors
    from aide.estimation.summary import Estimate

LEVEL = 0.95
"""Probability with which all limits of a verdict hold together: a convention."""
MOST_FACTOR = 1e4
"""Largest factor of runs that is still useful advice: a choice."""
EXAMPLE = "'means 0.1 sd, sds 10%, probabilities 0.05'"
"""A tolerance, as messages show it."""


class ErrorTolerance(NamedTuple):
    """Errors that are small enough; `None` for errors that do not matter.

    Attributes:
        means: Largest error of the mean of any variable, in sds of the gold standard.
        sds: Largest relative error of the sd of any variable: 0.1 is 10% too large or too small.
        probabilities: Largest error of any probability.

    Example:
        >>> aide.estimation.ErrorTolerance(means=0.1, sds=0.1)
        ErrorTolerance(means=0.1, sds=0.1, probabilities=None)
    """

    means: float | None = None
    sds: float | None = None
    probabilities: float | None = None

    def __str__(self) -> str:
        found = [
            None if self.means is None else f"means {self.means:g} sd",
            None if self.sds is None else f"sds {100 * self.sds:g}%",
            None if self.probabilities is None else f"probabilities {self.probabilities:g}",
        ]
        return ", ".join(part for part in found if part)

    @property
    def nats(self) -> float:
        """A divergence at which such errors occur: it plans runs and decides nothing."""
        parts = [
            np.inf if self.means is None else self.means**2,
            np.inf if self.sds is None else 2 * np.log1p(self.sds) ** 2,
            np.inf if self.probabilities is None else 4 * self.probabilities**2,
        ]
        return float(min(parts))


Tolerance = float | ErrorTolerance
"""A tolerance in nats, or one of errors."""
AnyTolerance = float | str | Mapping[str, float] | ErrorTolerance
"""A tolerance as a caller writes it; `as_tolerance` converts it to a `Tolerance`."""


class Part(NamedTuple):
    """The largest error of one kind, and the verdict.

    Attributes:
        words: The limits of the largest error in words.
        least: Lower limit of the largest error.
        most: Upper limit of the largest error.
        verdict: Whether all errors of this kind are within the tolerance.
        factor: About how many times the present runs decide; NaN if unknown.
        shares: Lower limit, estimate and upper limit of the largest error over its tolerance.
        is_loose: Whether the verdict is open because an upper bound, not the error, is estimated to
            exceed the tolerance.
    """

    words: str
    least: float
    most: float
    verdict: Verdict
    factor: float
    shares: tuple[float, float, float] = (np.nan, np.nan, np.nan)
    is_loose: bool = False

    @property
    def range(self) -> str:
        """The limits of the largest error, such as `0.02 to 0.11 sd`."""
        return self.words.rpartition(" is ")[2]


class ErrorCloseness(NamedTuple):
    """Verdicts on errors of all kinds with a tolerance.

    Attributes:
        parts: One part for every kind of error with a tolerance.
        tolerance: The tolerance.
        lacks: Empty: kept outputs are enough for these verdicts.
    """

    parts: tuple[Part, ...]
    tolerance: ErrorTolerance
    lacks: str = ""

    @property
    def outcome(self) -> Verdict:
        """`passed` (all errors are within), `failed` (one is shown to be beyond) or `undecided`.

        Law: all limits hold together with 95% probability, so that `passed` and `failed` are each
        wrong with at most 5% probability.
        """
        return all_of(part.verdict for part in self.parts)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the kind of error whose estimate is largest relative to its tolerance."""
        return max((part.shares for part in self.parts), key=lambda shares: shares[1])

    @property
    def limits(self) -> str:
        """All limits in words."""
        return f"{'; '.join(part.words for part in self.parts)} (95%)"

    @property
    def cell(self) -> str:
        """The verdict for a table."""
        return self.outcome

    def numbers(self) -> dict[str, Any]:
        """Limits in nats, which this verdict does not use, and the verdict."""
        return {"lower": None, "upper": None, "verdict": self.outcome}

    @property
    def remedy(self) -> str:
        """Advice on how to decide."""
        open_parts = [part.factor for part in self.parts if part.verdict == UNDECIDED]
        factor = max(open_parts, default=np.nan)
        unjudged = [part for part in self.parts if "cannot be judged" in part.words]
        if unjudged:
            return (
                "a variable with infinite values, or one that never moves under one of the two, "
                "has no mean or sd to compare: a tolerance in nats, or on probabilities, judges it"
            )
        if any(part.is_loose for part in self.parts):
            return (
                "the limit of any probability, to which meta-inference may add, exceeds its "
                "tolerance with any number of runs: raise M, or leave probabilities out of the "
                "tolerance and report those of interest by functions="
            )
        if not np.isfinite(factor) or factor > MOST_FACTOR:
            return (
                "an error is so near its tolerance that no affordable number of runs decides: "
                "choose another tolerance"
            )
        times = float(f"{max(factor, 1.1):.2g}")  # two digits, and no exponent: 220, not 2.2e+02
        return f"raise num_gold and num_target to about {times:,g} times what they are"


def as_tolerance(given: AnyTolerance) -> Tolerance:
    """Convert what a caller writes to a number of nats or to tolerances of errors.

    Args:
        given: A positive number of nats; an `ErrorTolerance`; a mapping with its entries; or a
            text such as `means 0.1 sd, sds 10%, probabilities 0.05`, or `0.5 nats`.
    """
    if isinstance(given, ErrorTolerance):
        return _checked(given)
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(ErrorTolerance._fields))
        if unknown:
            raise ValueError(
                f"tolerance knows means, sds and probabilities, got {', '.join(map(str, unknown))}."
            )
        return _checked(ErrorTolerance(**given))
    if isinstance(given, str):
        return _parsed(given)
    if not isinstance(given, int | float | np.number) or not given > 0:
        raise ValueError(
            f"tolerance must be a positive number of nats, got {given!r}; or a text about errors, "
            f"such as {EXAMPLE}."
        )
    return float(given)


def tolerance_words(tolerance: Tolerance) -> str:
    """A tolerance in words: `0.5 nats`, or `means 0.1 sd, sds 10%`."""
    return str(tolerance) if isinstance(tolerance, ErrorTolerance) else in_nats(tolerance)


def judge_errors(estimate: "Estimate", tolerance: ErrorTolerance) -> ErrorCloseness:
    """Compare errors with tolerances; limits of the table and of probabilities share the 5%."""
    both = tolerance.probabilities is not None and (tolerance.means or tolerance.sds) is not None
    errors = estimate.errors(1 - (1 - LEVEL) / (2 if both else 1))
    parts = []
    if tolerance.means is not None:
        parts.append(_table_part(errors, MEAN, tolerance.means))
    if tolerance.sds is not None:
        parts.append(_table_part(errors, SD, tolerance.sds))
    if tolerance.probabilities is not None:
        parts.append(_probability_part(errors, tolerance.probabilities))
    return ErrorCloseness(tuple(parts), tolerance)


def _table_part(errors: "Errors", quantity: str, limit: float) -> Part:
    found = [e for one in errors.table.variables if (e := one.of(quantity)) is not None]
    verdicts = [_verdict(error, limit) for error in found]
    least = max((error.least for error in found), default=0.0)
    most = max((error.most for error in found), default=0.0)
    open_errors = [e for e, v in zip(found, verdicts, strict=True) if v == UNDECIDED]
    factor = max((_factor(error, limit) for error in open_errors), default=1.0)
    shares = tuple(
        max((_over(error, value, limit) for error, value in pairs), default=0.0)
        for pairs in (
            [(e, float(np.clip(e.none, e.low, e.high))) for e in found],
            [(e, e.error) for e in found],
            [(e, end) for e in found for end in (e.low, e.high)],
        )
    )
    if quantity == MEAN:
        words = f"the largest error of a mean is {short(least, 2)} to {rounded_up(most)} sd"
    else:
        low, high = (percent(float(np.expm1(min(one, 50.0)))) for one in (least, most))
        words = f"the largest error of an sd is {low} to {high}"
    if errors.table.unjudged:
        words += f", and {named(errors.table.unjudged)} cannot be judged"
        verdicts.append(UNDECIDED)
        factor = np.nan
    return Part(words, least, most, all_of(verdicts), factor, (shares[0], shares[1], shares[2]))


def _over(error: ErrorOf, value: float, limit: float) -> float:
    return abs(value - error.none) / limit


def _verdict(error: ErrorOf, limit: float) -> Verdict:
    inner, outer = (1 - limit, 1 + limit) if error.quantity == SD else (-limit, limit)
    if inner <= error.low and error.high <= outer:
        return PASSED
    return FAILED if error.high < inner or error.low > outer else UNDECIDED


def _factor(error: ErrorOf, limit: float) -> float:
    """About how many times the runs decide: the distance to limits falls like 1 over their root."""
    wanted = np.log1p(limit) if error.quantity == SD else limit
    return ((error.most - error.size) / max(abs(wanted - error.size), 1e-12)) ** 2


def _probability_part(errors: "Errors", limit: float) -> Part:
    """Any probability: limits from above by total variation, from below by the table."""
    quantities = (PROBABILITY, INTERVAL, *BELOW)
    found = [e for one in errors.table.variables for e in one.errors if e.quantity in quantities]
    least = max((error.least for error in found), default=0.0)
    tv = errors.total_variation
    value, most = (1.0, 1.0) if tv is None else (tv.value, tv.upper)
    verdict = PASSED if most <= limit else FAILED if least > limit else UNDECIDED
    factor = ((most - value) / max(limit - value, 1e-12)) ** 2 if value < limit else np.nan
    words = f"the largest error of a probability is {short(least, 2)} to {rounded_up(most)}"
    shares = least / limit, value / limit, most / limit
    is_loose = verdict == UNDECIDED and value >= limit
    return Part(words, least, most, verdict, factor, shares, is_loose)


def _parsed(text: str) -> Tolerance:
    nats = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(nats?)?\s*", text)
    if nats is not None:
        return as_tolerance(_number(nats[1], text))
    parts: dict[str, float] = {}
    for part in text.split(","):
        found = re.fullmatch(
            r"\s*(means?|sds?|probabilit(?:y|ies))\s+([0-9.eE+-]+)\s*(%|sds?)?\s*", part
        )
        if found is None:
            raise ValueError(f"tolerance must be like {EXAMPLE}, or '0.5 nats'; got {text!r}.")
        kind = {"m": "means", "s": "sds", "p": "probabilities"}[found[1][0]]
        unit = found[3] or ""
        if (kind == "means" and unit == "%") or (kind != "means" and unit.startswith("sd")):
            raise ValueError(
                f"tolerance: means are in sds, sds and probabilities are shares or %; got {part!r}."
            )
        parts[kind] = _number(found[2], text) / (100 if unit == "%" else 1)
    return _checked(ErrorTolerance(**parts))


def _number(digits: str, text: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise ValueError(f"tolerance: {digits!r} in {text!r} is no number.") from None


def _checked(tolerance: ErrorTolerance) -> ErrorTolerance:
    for name, limit in tolerance._asdict().items():
        most = np.inf if name == "means" else 1.0
        if limit is not None and not 0 < limit < most:
            raise ValueError(f"tolerance: {name} must be above 0 and below {most:g}, got {limit}.")
    if all(limit is None for limit in tolerance):
        raise ValueError(f"tolerance must limit something: {EXAMPLE}.")
    return tolerance
