"""Errors of means, sds, quantiles and probabilities, as a result: a sentence, a table, a figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide._core.types import Role
from aide.engine.draws import Draws
from aide.estimation.errors.directions import Blame, Direction, find_blame
from aide.estimation.errors.figure import draw_forest, forest_layout
from aide.estimation.errors.find import (
    BELOW,
    INTERVAL,
    MEAN,
    PROBABILITY,
    SD,
    ErrorOf,
    Table,
    VariableErrors,
    find_table,
)
from aide.estimation.errors.overlap import Overlap, apart, effective_runs, overlap_of
from aide.estimation.errors.repair import Repair, find_repair
from aide.estimation.errors.total_variation import TotalVariation, total_variation_of
from aide.estimation.errors.variables import NamesOutputs, OutputVariable, variables_of
from aide.estimation.errors.words import named, percent, sd_limit, sentence
from aide.estimation.interval import unseen_share
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import in_nats, rounded_up
from aide.reporting.result import Result

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
WORTH_BLAME = 0.05
"""Least divergence of means and covariances, in nats, for which an array is named: a choice."""
MOSTLY = 0.6
"""Least share of this divergence of an array that the sentence names: a choice."""


@dataclass(frozen=True, repr=False, eq=False)
class Errors(Result):
    r"""Errors of means, sds, quantiles and probabilities of the target, each with limits.

    Law: with probability `level` all limits of the table hold together, not counting outputs of
    mass `unseen` on either side; `total_variation` holds by itself and counts all outputs. An error
    is target minus gold standard; the gold standard's runs are taken as exact. Estimates are those
    of `aide.estimation.errors.overlap`.

    Attributes:
        names: Names of gold standard and target.
        table: All errors, worst first.
        blame: Combinations of variables that differ; `None` if there is a single variable.
        total_variation: Upper limit of the error of any probability.
        level: Probability with which all limits hold together.
        unseen: Share of outputs that may be of a kind that no run shows.
        knows_ratios: Whether densities entered; otherwise outputs alone are compared.
        overlap: Weights of all runs in samples of either algorithm.
        variables: Values of the variables, for figures and repair.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> errors = estimate.errors()
        >>> errors.records()[0]["name"]
        'x'
    """

    names: tuple[str, str]
    table: Table
    blame: Blame | None
    total_variation: TotalVariation | None
    level: float
    unseen: float
    knows_ratios: bool
    overlap: Overlap
    variables: tuple[OutputVariable, ...]

    def __getitem__(self, name: str) -> VariableErrors:
        for one in self.table.variables:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.table.variables[:20])
        raise KeyError(f"there is no variable {name!r}; there are {known}.")

    @cached_property
    def repair(self) -> Repair:
        """Means, sds and quantiles corrected by weights, or why that is not possible."""
        return find_repair(self)

    def most(self, quantity: str) -> float | None:
        """The largest upper limit of an error of that quantity; see `ErrorOf.most`."""
        found = [e.most for one in self.table.variables if (e := one.of(quantity)) is not None]
        return max(found, default=None)

    def worst(self, quantity: str) -> tuple[str, ErrorOf] | None:
        """The variable with the largest estimated error of that quantity, and the error."""
        found = [
            (one.name, error)
            for one in self.table.variables
            if (error := one.of(quantity)) is not None
        ]
        return max(found, key=lambda pair: pair[1].size, default=None)

    @property
    def subject(self) -> str:
        """The names of target and gold standard."""
        return f"{self.names[1]}  against  {self.names[0]}"

    @property
    def headline(self) -> str:
        """A sentence: the quantities that are right, and the wrong ones with their errors."""
        words = sentence(self.table.variables, self.missed)
        return f"{words} ({100 * self.level:g}%){self._culprit}"

    @cached_property
    def missed(self) -> tuple[str, ...]:
        """Phrases on dependences that the target misses."""
        found = (
            [] if self.blame is None else [one for one in self.blame.directions if one.is_certain]
        )
        return tuple(_phrase(one) for one in found[:2])

    @property
    def _culprit(self) -> str:
        """A phrase on the array that makes up most of the divergence, if there is one."""
        if self.blame is None or not self.blame.blocks or not self.blame.nats >= WORTH_BLAME:
            return ""
        name, nats = self.blame.blocks[0]
        if not nats >= MOSTLY * self.blame.nats:
            return ""
        return f"; mostly in {name}, {nats:.2g} of {in_nats(self.blame.nats, 2)}"

    @cached_property
    def _nats(self) -> dict[str, float]:
        """Divergence of every single variable, in nats, by name."""
        return {} if self.blame is None else dict(self.blame.singles)

    @cached_property
    def _shown(self) -> tuple[VariableErrors, ...]:
        """Variables with a line in the table; events only if all variables are events."""
        real = tuple(one for one in self.table.variables if one.of(PROBABILITY) is None)
        return real or self.table.variables

    def grid(self) -> Grid:
        """The worst variables, with limits in brackets."""
        shown = self._shown[:MOST_LINES]
        quantities = [q for q in TITLES if _has(shown, q)]
        titles = ["variable", *(TITLES[q] for q in quantities)]
        lines = [[one.name, *(_cell(one.of(q)) for q in quantities)] for one in shown]
        if _has(shown, BELOW[0]):
            titles.append(SHARES)
            for line, one in zip(lines, shown, strict=True):
                line.append(_shares(one))
        if any(one.name in self._nats for one in shown):
            titles.append(ALONE)
            for line, one in zip(lines, shown, strict=True):
                nats = self._nats.get(one.name)
                line.append("–" if nats is None else f"{nats:.2g}")
        texts, optional = frozenset(titles[:1]), (SHARES, ALONE)
        return Grid(tuple(titles), tuple(map(tuple, lines)), ("",) * len(lines), texts, optional)

    def rows(self) -> list[tuple[str, str]]:
        """Sentences on other variables, on combinations, and on any probability."""
        found = [
            (
                "errors",
                "An error is target minus gold standard, in standard deviations (sds) of the gold "
                "standard; the worst variable comes first.",
            )
        ]
        rest = self._shown[MOST_LINES:]
        if rest:
            more = "1 more variable has" if len(rest) == 1 else f"{len(rest)} more variables have"
            found.append(("others", f"{more} {_others(rest)}."))
        events = [one for one in self.table.variables if one not in self._shown]
        found += [row for one in events for row in _event(one)]
        if self.blame is not None:
            found += [("direction", _about(one, self.blame)) for one in self.blame.directions]
            found += _ranking(self.blame)
        found += _averages(self.table.variables)
        if self.total_variation is not None:
            most = rounded_up(self.total_variation.upper)
            text = f"Any other probability is off by at most {most} ({100 * self.level:g}%)."
            found.append(("reading", text))
        text = (
            f"All limits in brackets hold together with {100 * self.level:g}% confidence. Outputs "
            f"rarer than {percent(self.unseen)}, which no run may have shown, could move a "
            f"probability by {percent(self.unseen)} more, and a mean by more if they lie far out."
        )
        return [*found, ("limits", text), ("repair", f"{self.repair.headline.rstrip('.')}.")]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on variables that were left out, and on outputs without densities."""
        found = []
        if not self.knows_ratios:
            found.append(
                "No densities entered: outputs alone are compared, with wider limits, and nothing "
                "limits the error of a probability that was not asked for."
            )
        if self.table.infinite:
            names = named(self.table.infinite)
            found.append(f"Infinite values, hence no mean and no sd: {names}.")
        if self.table.collapsed:
            names = named(self.table.collapsed)
            found.append(f"Under one of the two these never move, and have no sds: {names}.")
        return tuple(found)

    def numbers(self) -> dict[str, Any]:
        """Numbers of the table as a whole."""
        tv = self.total_variation
        return {
            "level": self.level,
            "total_variation": None if tv is None else tv.value,
            "total_variation_upper": None if tv is None else tv.upper,
            "unseen": self.unseen,
            "directions": [] if self.blame is None else list(self.blame.directions),
            "averaged_draws": {
                one.name: n for one in self.table.variables if (n := one.averaged_draws)
            },
            "nats": None if self.blame is None else self.blame.nats,
            "marginal_nats": [] if self.blame is None else dict(self.blame.singles),
            "block_nats": [] if self.blame is None else dict(self.blame.blocks),
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per variable and quantity; see `ErrorOf`.

        `nats` is by how much means and sds of that variable differ alone; `None` for functions.
        """
        return [
            {"name": one.name, **error._asdict(), "nats": self._nats.get(one.name)}
            for one in self.table.variables
            for error in one.errors
        ]

    def layout(self) -> PanelGrid:
        """Panels for means, sds and contents of intervals; below, marginals of the worst ones."""
        return forest_layout(self)

    def plot_on(self, panels: np.ndarray) -> None:
        """A forest plot for every quantity, and the marginals of the three worst variables."""
        draw_forest(self, panels)


def find_errors(
    draws: Draws,
    *,
    level: float = 0.95,
    posterior: NamesOutputs | None = None,
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Errors:
    """Errors of all variables of the outputs, and of functions of them; see `Estimate.errors`."""
    check_functions(functions)
    variables = variables_of(draws, posterior, functions)
    found = overlap_of(draws)
    return errors_from(
        (draws.gold.name, draws.target.name),
        apart(draws) if found is None else found,
        variables,
        level,
        min(effective_runs(draws, role) for role in Role),
        None if found is None else total_variation_of(draws, level),
    )


def errors_from(
    names: tuple[str, str],
    overlap: Overlap,
    variables: tuple[OutputVariable, ...],
    level: float,
    effective: float,
    total_variation: TotalVariation | None = None,
) -> Errors:
    """Errors of variables from weighted outputs, at least `effective` of them independent.

    Total variation is `None` if no densities entered: `overlap` then keeps both samples apart.
    """
    return Errors(
        names,
        find_table(overlap, variables, level),
        find_blame(overlap, variables, level),
        total_variation,
        level,
        unseen_share(effective, level),
        total_variation is not None,
        overlap,
        variables,
    )


def check_functions(functions: Any) -> None:
    """Raise unless `functions` is `None` or a mapping from names to functions."""
    if functions is None:
        return
    if not isinstance(functions, Mapping):
        raise TypeError(
            f"functions must map names to functions of one output, got {functions!r}. Write "
            'functions={"P(tau > 5)": lambda x: x["tau"] > 5}.'
        )
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"functions[{name!r}] must be a function, got {function!r}.")


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


def _phrase(one: Direction) -> str:
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
