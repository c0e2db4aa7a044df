"""`aide.compare_draws`: a lower limit on the divergence of two sets of draws, from draws alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide._core.keywords import keywords
from aide._core.numerics import special
from aide._core.types import Value
from aide.algorithms.reference import ReferenceDraws
from aide.comparing.draw_sets import DrawSet, check_comparable, errors_between, make_draw_set
from aide.comparing.mean_tests import FunctionTest, compare_functions
from aide.estimation.errors.errors import Errors
from aide.estimation.interval import check_level
from aide.estimation.notes import MOST_RHAT
from aide.estimation.sandwich.inputs import ClassifierInputs, phases_of
from aide.estimation.sandwich.lower_bound import lower_terms
from aide.reporting.figures import PanelGrid, as_label, plot_p_values
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, UNDECIDED, Verdict, in_nats, p_value, short
from aide.reporting.result import Result

MOST_LINES = 8
"""Largest number of functions in the table and the plot."""
COLOURS = ("#c8a200", "#1f6fb4")
"""Colours of both sets in the plot."""


@dataclass(frozen=True, repr=False, eq=False)
class DrawsDifference(Result):
    r"""A lower limit on $D = KL(a \| b) + KL(b \| a)$, and the functions that differ.

    Law: if both sets have the same distribution, a difference is claimed with probability
    `1 - level` at most: half of it by the limit, half by the tests of functions.

    Attributes:
        a: One set.
        b: The other set.
        lower: $D \ge$ `lower` nats with probability `level` or more; 0 always holds.
        lower_a_to_b: The lower limit for $KL(a \| b)$ alone, large where `b` misses mass.
        lower_b_to_a: The lower limit for $KL(b \| a)$ alone, large where `b` invents mass.
        tests: Tests of functions of a draw, the smallest p-value first.
        level: The confidence of all claims.
        smallest: Divergence in nats of a shift in one coordinate that is found in 4 of 5 cases.
        saturated: Whether the number of draws, not the difference, determines the limit.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = aide.compare_draws(rng.normal(size=500), rng.normal(size=500))
        >>> found.lower  # no difference is shown between two sets from the same distribution
        0.0
    """

    a: DrawSet
    b: DrawSet
    lower: float
    lower_a_to_b: float
    lower_b_to_a: float
    tests: tuple[FunctionTest, ...]
    level: float
    smallest: float
    saturated: bool

    @property
    def telling(self) -> tuple[FunctionTest, ...]:
        """Tests with p-values of at most half of `1 - level`."""
        return tuple(test for test in self.tests if test.p_value <= (1 - self.level) / 2)

    @property
    def is_different(self) -> bool:
        """Whether a difference is claimed."""
        return self.lower > 0 or bool(self.telling)

    @property
    def verdict(self) -> Verdict:
        """`failed` if the sets differ; otherwise `undecided`: draws never show equality."""
        return FAILED if self.is_different else UNDECIDED

    @property
    def headline(self) -> str:
        """The lower limit, or the smallest divergence that would be found, on one line."""
        pair, level = f"{self.a.name} and {self.b.name}", f"({100 * self.level:g}%)"
        if self.lower > 0:
            return f"{pair} are at least {in_nats(short(self.lower, 2))} apart {level}"
        if self.is_different:
            return f"{pair} differ {level}; these draws do not show by how many nats"
        return (
            f"No difference between {pair} was seen; one of less than about "
            f"{in_nats(short(self.smallest, 2))} in one coordinate cannot be seen with these draws"
        )

    def errors(
        self,
        level: float | None = None,
        *,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> Errors:
        r"""Errors of results from `b` if `a` is right, each with limits.

        Law: with probability `level` all limits of the table hold together. They allow for the
        autocorrelation of both sets, separately for each number of a draw. No densities are used:
        an error is known as precisely as the difference of two means.

        Args:
            level: The confidence; by default that of this result.
            functions: Functions of one draw, by name; see `Estimate.errors`.
        """
        chosen = self.level if level is None else level
        return errors_between(self.a, self.b, chosen, functions)

    @cached_property
    def _sentence(self) -> str:
        return self.errors().headline

    def rows(self) -> list[tuple[str, str]]:
        """Errors of `b`, the draws, directions, and the question that lower limits leave open."""
        found = [("errors", f"Of {self.b.name} against {self.a.name}: {self._sentence}.")]
        found += [("draws", f"{one.words} independent draws.") for one in (self.a, self.b)]
        if self.lower > 0:
            a, b, each = self.a.name, self.b.name, f"({50 + 50 * self.level:g}% each)"
            limits = short(self.lower_a_to_b, 2), short(self.lower_b_to_a, 2)
            text = f"KL({a}‖{b}) ≥ {in_nats(limits[0])}, KL({b}‖{a}) ≥ {in_nats(limits[1])} {each}."
            found.append(("directions", text))
        if self.telling:
            names = [f"{t.function} ({p_value(t.p_value)})" for t in self.telling[:3]]
            more = f" and {len(self.telling) - 3} more" if len(self.telling) > 3 else ""
            found.append(("seen in", ", ".join(names) + more))
        elif self.is_different:
            text = "a classifier's decisions, not in a single location, spread or correlation"
            found.append(("seen in", text))
        text = "That they are equal: draws alone give lower limits, never upper ones."
        return [*found, ("not shown", text)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Chains that disagree, and a limit that the number of draws determines."""
        found = [
            f"The chains of {one.name} do not agree with each other, drift, or are too short to "
            f"tell (R-hat {one.rhat:.2f} > {MOST_RHAT})."
            for one in (self.a, self.b)
            if one.rhat > MOST_RHAT
        ]
        found += [f"In {one.name}, {one.order}." for one in (self.a, self.b) if one.order]
        if self.saturated:
            found.append(
                "The number of draws limits the nats that can be shown: there may be more."
            )
        return tuple(found)

    def grid(self) -> Grid:
        """The functions with the smallest p-values."""
        titles = ("function", self.a.name, self.b.name, "p-value of all")
        lines = tuple(
            (test.function, short(test.in_a), short(test.in_b), p_value(test.p_value))
            for test in self.tests[:MOST_LINES]
        )
        return Grid(titles, lines, ("",) * len(lines), frozenset(titles[:1]))

    def numbers(self) -> dict[str, Any]:
        """The limits and the numbers of draws."""
        return {
            "lower": self.lower,
            "lower_a_to_b": self.lower_a_to_b,
            "lower_b_to_a": self.lower_b_to_a,
            "level": self.level,
            "is_different": self.is_different,
            "smallest": self.smallest,
            "saturated": self.saturated,
            "num_draws": [self.a.num_draws, self.b.num_draws],
            "effective": [self.a.effective, self.b.effective],
            "rhat": [self.a.rhat, self.b.rhat],
            "errors": self._sentence,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per function."""
        return [test._asdict() for test in self.tests]

    def layout(self) -> PanelGrid:
        """Two panels side by side."""
        return PanelGrid(1, 2, (9.0, 3.4))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot p-values of functions (left), and the coordinate that differs most (right)."""
        shown = self.tests[:MOST_LINES]
        level, values = (1 - self.level) / 2, [test.p_value for test in shown]
        plot_p_values(panels[0], [test.function for test in shown], values, level)
        column = self.tests[0].column
        parts = [one.columns[:, column] for one in (self.a, self.b)]
        bins = np.histogram_bin_edges(np.concatenate(parts), 40)
        for one, part, colour in zip((self.a, self.b), parts, COLOURS, strict=True):
            panels[1].hist(
                part, bins, density=True, color=colour, alpha=0.5, label=as_label(one.name)
            )
        panels[1].set(xlabel=as_label(self.a.coordinates[column]), ylabel="density")
        panels[1].legend(frameon=False)


POWER = 0.8
"""Probability with which a shift of size `DrawsDifference.smallest` is found."""


@keywords("aide.compare_draws")
def compare_draws(
    a: Value | ReferenceDraws,
    b: Value | ReferenceDraws,
    *,
    names: tuple[str, str] = ("a", "b"),
    has_chains: bool | None = None,
    level: float = 0.95,
) -> DrawsDifference:
    r"""A lower limit on $KL(a \| b) + KL(b \| a)$ from draws alone, and the functions that differ.

    A classifier between the two sets gives the limit: it is trained on some parts of the chains and
    tested on others, so that the limit holds for every classifier. Locations, spreads and
    dependences are tested besides, for all of them together. Autocorrelation is accounted for in
    both; draws of slow chains are thinned to twice their effective size. Nothing here is random:
    the same draws give the same result.

    Args:
        a: One set: an array of shape (draw,), (draw, coordinate) or (chain, draw, coordinate), a
            pytree (dict) of arrays with a leading axis (draw,), or `aide.ReferenceDraws`.
        b: The other set, with the same coordinates; the numbers of draws may differ.
        names: The names of both sets.
        has_chains: Whether the leading axes are (chain, draw); by default only for a single array
            with three axes.
        level: Least probability with which everything that the result claims holds.

    Returns:
        The lower limit, and the functions of the draws that differ most.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.normal(size=1000), 0.5 * rng.normal(size=1000)
        >>> difference = aide.compare_draws(a, b)
        >>> difference.lower > 0.3  # nats, shown from draws alone; the divergence is 1.125
        True
    """
    check_level(level)
    first, second = (
        make_draw_set(name, draws, has_chains) for name, draws in zip(names, (a, b), strict=True)
    )
    check_comparable(first, second)
    each = 0.5 + level / 2
    inputs = ClassifierInputs(
        (first.values, second.values), None, None, phases_of(first.sequences, second.sequences)
    )
    effective = first.effective, second.effective
    found = lower_terms([inputs], each, (first.sequences, second.sequences), effective)
    forward, backward = found.direction_limits(each) or (0.0, 0.0)
    tests = compare_functions(first, second)
    return DrawsDifference(
        first,
        second,
        max(found.limit(each), 0.0),
        max(forward, 0.0),
        max(backward, 0.0),
        tests,
        level,
        _smallest_shift(first, second, len(tests), level),
        found.saturated,
    )


def _smallest_shift(a: DrawSet, b: DrawSet, num_tests: int, level: float) -> float:
    r"""$\delta^2$, the divergence in nats of a Gaussian shifted by $\delta$ standard deviations."""
    needed = -special.ndtri((1 - level) / 4 / max(num_tests, 1)) + special.ndtri(POWER)
    return float(needed**2 * (1 / a.effective + 1 / b.effective))
