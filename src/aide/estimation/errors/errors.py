"""Errors of means, sds, quantiles and probabilities, as a result: a sentence, a table, a figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide._core.types import Role
from aide.engine.draws import Draws
from aide.estimation.errors.directions import Blame, find_blame
from aide.estimation.errors.figure import draw_forest, forest_layout
from aide.estimation.errors.find import (
    ErrorOf,
    Table,
    VariableErrors,
    find_table,
)
from aide.estimation.errors.overlap import Overlap, apart, effective_runs, overlap_of
from aide.estimation.errors.page import direction_phrase, errors_grid, errors_rows
from aide.estimation.errors.repair import Repair, find_repair
from aide.estimation.errors.total_variation import TotalVariation, total_variation_of
from aide.estimation.errors.variables import NamesOutputs, OutputVariable, variables_of
from aide.estimation.errors.words import named, sentence
from aide.estimation.interval import unseen_share
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import in_nats
from aide.reporting.result import Result

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
        return tuple(direction_phrase(one) for one in found[:2])

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
    def nats_alone(self) -> dict[str, float]:
        """Divergence of every single variable, in nats, by name."""
        return {} if self.blame is None else dict(self.blame.singles)

    def grid(self) -> Grid:
        """The worst variables, with limits in brackets."""
        return errors_grid(self)

    def rows(self) -> list[tuple[str, str]]:
        """Sentences on other variables, on combinations, and on any probability."""
        return errors_rows(self)

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
            {"name": one.name, **error._asdict(), "nats": self.nats_alone.get(one.name)}
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
