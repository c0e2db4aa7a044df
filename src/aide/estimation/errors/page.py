"""The page of a table of errors: the table of the worst variables, and sentences on the rest."""

from typing import TYPE_CHECKING

import numpy as np

from aide.estimation.errors.directions import Blame, Direction
from aide.estimation.errors.find import ErrorOf, VariableErrors
from aide.estimation.errors.lines import BELOW, INTERVAL, MEAN, PROBABILITY, SD
from aide.estimation.errors.words import named, percent, sd_limit
from aide.reporting.grid import Grid
from aide.reporting.numbers import in_nats, rounded_up

if TYPE_CHECKING:
    from aide.estimation.errors.errors import Errors

LEAST_NATS = 0.01
"""Least divergence, in nats, of a variable or array that is named as differing most: a choice."""
MOST_AVERAGED = 1e7
"""Largest number of averaged draws that is named: a choice."""
MOST_LINES = 8
"""Largest number of variables in a printed table; `records` and CSV have all: a choice."""
TITLES = {
    MEAN: "mean, in sds",
    SD: "sd ratio",
    INTERVAL: "target's 90% interval holds",
    PROBABILITY: "probability, target − gold",
}
"""Titles of the columns of the printed table, by quantity."""
SHARES = "target below gold's 5 / 50 / 95%"
"""Title of the column of the target's shares below quantiles of the gold standard."""
ALONE = "nats alone"
"""Title of the column of nats by which each variable differs alone."""


def errors_grid(errors: "Errors") -> Grid:
    """The worst variables, with limits in brackets."""
    shown, alone = _shown(errors)[:MOST_LINES], errors.nats_alone
    quantities = [q for q in TITLES if _has(shown, q)]
    titles = ["variable", *(TITLES[q] for q in quantities)]
    lines = [[one.name, *(_cell(one.of(q)) for q in quantities)] for one in shown]
    if _has(shown, BELOW[0]):
        titles.append(SHARES)
        for line, one in zip(lines, shown, strict=True):
            line.append(_shares(one))
    if any(one.name in alone for one in shown):
        titles.append(ALONE)
        for line, one in zip(lines, shown, strict=True):
            nats = alone.get(one.name)
            line.append("–" if nats is None else f"{nats:.2g}")
    texts, optional = frozenset(titles[:1]), (SHARES, ALONE)
    return Grid(tuple(titles), tuple(map(tuple, lines)), ("",) * len(lines), texts, optional)


def errors_rows(errors: "Errors") -> list[tuple[str, str]]:
    """Sentences on other variables, on combinations, and on any probability."""
    found = [
        (
            "errors",
            "An error is target minus gold standard, in standard deviations (sds) of the gold "
            "standard; the worst variable comes first.",
        )
    ]
    shown = _shown(errors)
    rest = shown[MOST_LINES:]
    if rest:
        more = "1 more variable has" if len(rest) == 1 else f"{len(rest)} more variables have"
        found.append(("others", f"{more} {_others(rest)}."))
    events = [one for one in errors.table.variables if one not in shown]
    found += [row for one in events for row in _event(one)]
    if errors.blame is not None:
        found += [("direction", _about(one, errors.blame)) for one in errors.blame.directions]
        found += _ranking(errors.blame)
    found += _averages(errors.table.variables)
    if errors.total_variation is not None:
        most = rounded_up(errors.total_variation.upper)
        text = f"Any other probability is off by at most {most} ({100 * errors.level:g}%)."
        found.append(("reading", text))
    text = (
        f"All limits in brackets hold together with {100 * errors.level:g}% confidence. Outputs "
        f"rarer than {percent(errors.unseen)}, which no run may have shown, could move a "
        f"probability by {percent(errors.unseen)} more, and a mean by more if they lie far out."
    )
    return [*found, ("limits", text), ("repair", f"{errors.repair.headline.rstrip('.')}.")]


def _shown(errors: "Errors") -> tuple[VariableErrors, ...]:
    """Variables with a line in the table; events only if all variables are events."""
    real = tuple(one for one in errors.table.variables if one.of(PROBABILITY) is None)
    return real or errors.table.variables


def _has(variables: tuple[VariableErrors, ...], quantity: str) -> bool:
    return any(one.of(quantity) is not None for one in variables)


def _cell(error: ErrorOf | None) -> str:
    """The error and its limits, with the digits that the limits justify."""
    if error is None:
        return "–"
    if error.high > 100:
        return f"{error.error:.3g} ({error.low:.2g}, {error.high:.3g})"
    factor = 1.0 if error.quantity in (MEAN, PROBABILITY, SD) else 100.0
    value, low, high = (factor * one for one in (error.error, error.low, error.high))
    width = high - low
    digits = 2 if factor == 1.0 else 0
    if 0 < width < 2 * 10.0**-digits:
        digits = min(digits + 2, int(1 - np.floor(np.log10(width))))
    sign = "+" if error.quantity in (MEAN, PROBABILITY) else ""
    unit = "%" if factor == 100.0 else ""
    text = f"{value:{sign}z.{digits}f}{unit}"
    return f"{text} ({low:z.{digits}f}, {high:z.{digits}f})"


def _shares(one: VariableErrors) -> str:
    """Shares of the target below the gold standard's quantiles, without limits."""
    found = [100 * error.error for name in BELOW if (error := one.of(name)) is not None]
    texts = [f"{share:.0f}" if share >= 10 else f"{share:.2g}" for share in found]
    return " / ".join(texts) + "%" if found else "–"


def _event(one: VariableErrors) -> list[tuple[str, str]]:
    """A row on a probability that the caller asked for."""
    error = one.of(PROBABILITY)
    if error is None:
        return []
    text = f"{error.target:.3g} instead of {error.gold:.3g}, an error of {_cell(error)}"
    return [("probability", f"{one.name} is {text}.")]


def _averages(variables: tuple[VariableErrors, ...]) -> list[tuple[str, str]]:
    """A row on the numbers of averaged draws of the target at which bias outweighs noise."""
    found = [(one.name, n) for one in variables if (n := one.averaged_draws) is not None]
    least = min((n.low for _, n in found), default=np.inf)
    parts = []
    if 2 <= least < MOST_AVERAGED:
        num = f"{int(least):,}"
        text = f"in averages of up to {num} independent draws of the target, no bias exceeds the"
        parts.append(f"{text} Monte Carlo error")
    sure = min(found, key=lambda pair: pair[1].high, default=None)
    if sure is not None and sure[1].high < MOST_AVERAGED:
        num = max(int(np.ceil(sure[1].high)), 1)
        start = "from the first draw on" if num == 1 else f"from {num:,} draws on"
        parts.append(f"{start}, the bias of {sure[0]} exceeds its Monte Carlo error")
    text = "; ".join(parts)
    return [("averages", f"{text[:1].upper()}{text[1:]}.")] if parts else []


def _others(rest: tuple[VariableErrors, ...]) -> str:
    found, words = [], ((MEAN, "means within {} sd", rounded_up), (SD, "sds within {}", sd_limit))
    for quantity, form, limit in words:
        most = [error.most for one in rest if (error := one.of(quantity)) is not None]
        if most:
            found.append(form.format(limit(max(most))))
    return ", ".join(found) or "see records()"


def direction_phrase(one: Direction) -> str:
    """A phrase on a dependence that the target misses."""
    if one.correlations is not None:
        gold, target = one.correlations
        return f"correlation of {named(one.names)} {target:.2f} instead of {gold:.2f}"
    return f"sd of a combination of {named(one.names)} {one.ratio:.2g} times the right one"


def _about(one: Direction, blame: Blame) -> str:
    terms = " ".join(
        f"{'+' if c >= 0 else '−'} {abs(c):.2f} {name}"
        for c, name in zip(one.coefficients, one.names, strict=True)
    ).removeprefix("+ ")
    text = (
        f"Along {terms} (in sds of the gold standard) the target's sd is {one.ratio:.2g} times the "
        f"gold standard's ({one.low:.2g} to {one.high:.2g})"
    )
    if one.correlations is not None:
        gold, target = one.correlations
        text += f"; their correlation is {target:.2f} instead of {gold:.2f}"
    share = f"{one.nats:.2g} of the {in_nats(blame.nats, 2)} by which means and covariances differ"
    return f"{text}. This dependence accounts for {share}."


def _ranking(blame: Blame) -> list[tuple[str, str]]:
    single_names = {name for name, _ in blame.singles}
    arrays = () if all(name in single_names for name, _ in blame.blocks) else blame.blocks
    found, words = [], (("arrays", "arrays", arrays), ("alone", "variables", blame.singles))
    for name, what, parts in words:
        large = [pair for pair in parts[:3] if pair[1] >= LEAST_NATS]
        if large:
            listed = ", ".join(f"{variable} by {in_nats(nats, 2)}" for variable, nats in large)
            text = f"By means and covariances, these {what} differ most: {listed}."
            found.append((name, text))
    return found
