"""The result of `aide.tune`: the chosen setting, and why no cheaper one was chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from aide.comparing.columns import total_looseness
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    Tolerance,
    judge_errors,
    tolerance_words,
)
from aide.estimation.sandwich.balance import balanced_error, balanced_limits
from aide.estimation.summary import Estimate
from aide.estimation.trust import Trust
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import PASSED, UNDECIDED, Verdict, in_nats, interval, short
from aide.reporting.result import Result
from aide.tuning.pilots import Planned
from aide.tuning.point import (
    Point,
    Setting,
    axis_of,
    error_cells,
    error_record,
    plot_points,
    seconds_words,
    titles_of,
)


class TestedSetting(NamedTuple):
    """A setting to which runs were added until it was decided, or the budget was spent."""

    planned: Planned
    estimate: Estimate
    tolerance: Tolerance
    num_runs: int

    @property
    def limits(self) -> tuple[float, float]:
        """Limits of the bound in nats; the upper one is also a limit of the divergence."""
        return balanced_limits(self.estimate.draws, self.estimate.look.level(LEVEL))

    @property
    def closeness(self) -> ErrorCloseness | None:
        """Errors and their tolerance, if it is one of errors."""
        if not isinstance(self.tolerance, ErrorTolerance):
            return None
        return judge_errors(self.estimate, self.tolerance)

    @property
    def is_within(self) -> bool:
        """Whether the setting was shown to be within the tolerance."""
        if isinstance(self.tolerance, ErrorTolerance):
            return judge_errors(self.estimate, self.tolerance).outcome == PASSED
        return self.limits[1] <= self.tolerance

    @property
    def is_loose(self) -> bool:
        """Whether looseness may explain a missing pass; never for errors, which have none."""
        if isinstance(self.tolerance, ErrorTolerance):
            return False
        slack = total_looseness(self.estimate) or 0.0
        return not self.is_within and bound_of(self.estimate) - slack <= self.tolerance

    @property
    def outcome(self) -> str:
        """The verdict, and the reason if it is undecided."""
        if isinstance(self.tolerance, ErrorTolerance):
            return judge_errors(self.estimate, self.tolerance).outcome
        if self.is_within:
            return PASSED
        if self.limits[0] <= self.tolerance:
            return UNDECIDED
        return f"{UNDECIDED}: {'looseness' if self.is_loose else 'bound above'}"

    @property
    def words(self) -> str:
        """The limits that were shown."""
        if self.closeness is not None:
            return self.closeness.limits
        return f"its divergence is below {in_nats(short(self.limits[1]))} (97.5%)"

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of a table, under the titles of `titles_of`."""
        if self.closeness is not None:
            return error_cells(self.closeness)
        return short(bound_of(self.estimate)), interval(*self.limits)

    def point(self) -> Point:
        """The numbers of the setting, as in a sweep."""
        draws, one = self.estimate.draws, self.planned
        return Point(
            one.setting,
            one.num_particles,
            one.seconds,
            self.estimate.value,
            self.estimate.std_error,
            bound_of(self.estimate),
            *self.limits,
            total_looseness(self.estimate),
            draws.target.num_meta,
            draws.target.num_runs,
            balanced_error(draws),
            self.closeness,
        )


@dataclass(frozen=True, repr=False, eq=False)
class Tuned(Result):
    """The cheapest setting that was shown to be within a tolerance.

    Attributes:
        gold: The gold standard's name.
        tolerance: Largest divergence in nats, or errors, that are good enough.
        ladder: Settings with pilots, from cheap to costly.
        tried: Settings that were tested, by their index in the settings as given.
        cost: The name of the cost.
        num_runs: Runs in all, pilots included.
        trust: The trust in the gold standard, if known.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> shifted = lambda shift: aide.Tractable.of(Normal(shift, 1.0))
        >>> cost = lambda setting: 1.0 / setting["shift"]  # closer is dearer
        >>> found = aide.tune(0, exact, shifted, {"shift": [1.0, 0.1]}, tolerance=0.1, cost=cost)
        >>> found.setting
        {'shift': 0.1}
    """

    gold: str
    tolerance: Tolerance
    ladder: tuple[Planned, ...]
    tried: Mapping[int, TestedSetting]
    cost: str
    num_runs: int
    trust: Trust | None = None

    @cached_property
    def best(self) -> TestedSetting | None:
        """The cheapest setting that was shown to be within the tolerance; `None` if none was."""
        within = [self.tried[p.index] for p in self.ladder if self._is_within(p)]
        return within[0] if within else None

    def _is_within(self, planned: Planned) -> bool:
        return planned.index in self.tried and self.tried[planned.index].is_within

    @property
    def setting(self) -> Setting | None:
        """The parameters of the best setting."""
        return None if self.best is None else self.best.planned.setting

    @property
    def estimate(self) -> Estimate | None:
        """AIDE at the best setting."""
        return None if self.best is None else self.best.estimate

    @property
    def verdict(self) -> Verdict:
        """`passed` if a setting was found, otherwise `undecided`."""
        return UNDECIDED if self.best is None else PASSED

    @property
    def headline(self) -> str:
        """The best setting, or that none was found."""
        if self.best is None:
            return f"No setting was shown to be within {self._wanted} of {self.gold}"
        name = self.best.planned.name
        return (
            f"The cheapest setting within {self._wanted} of {self.gold} is {name}: "
            f"{self.best.words}"
        )

    @property
    def _wanted(self) -> str:
        return tolerance_words(self.tolerance)

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standard."""
        return () if self.trust is None else (self.trust.words,)

    def grid(self) -> Grid:
        """One line per setting with a pilot, from cheap to costly."""
        titles = ("setting", "one run", *titles_of(self.tolerance), "M", "runs", "verdict")
        lines = tuple(self._line(planned) for planned in self.ladder)
        verdicts = tuple(PASSED if self._is_within(p) else "" for p in self.ladder)
        return Grid(titles, lines, verdicts, frozenset({"setting", "verdict"}), ("runs", "M"))

    def _line(self, planned: Planned) -> tuple[str, ...]:
        cost, found = seconds_words(planned.seconds), self.tried.get(planned.index)
        if found is None:
            cells = ["–"] * len(titles_of(self.tolerance))
            if not isinstance(self.tolerance, ErrorTolerance):
                cells[0] = f"≈ {short(planned.plan.bound, 2)}"
            metas = str(planned.plan.metas[1])
            return planned.name, cost, *cells, metas, "–", self._why_not(planned)
        metas = str(found.estimate.draws.target.num_meta)
        return planned.name, cost, *found.cells, metas, f"{found.num_runs:,}", found.outcome

    def _why_not(self, planned: Planned) -> str:
        if planned.is_blocked_by_looseness(self.tolerance):
            return "not tried: looseness"
        if isinstance(self.tolerance, ErrorTolerance):
            return "not tried" if planned.is_foreseen(self.tolerance) else "not tried: errors above"
        above = planned.plan.bound > self.tolerance
        return "not tried: bound above" if above else "not tried"

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per setting with a pilot."""
        found = []
        for planned in self.ladder:
            tried = self.tried.get(planned.index)
            low, high = (None, None) if tried is None else tried.limits
            found.append(
                {
                    **planned.setting,
                    "num_particles": planned.num_particles,
                    "seconds": planned.seconds,
                    "foreseen": planned.plan.bound,
                    "bound": None if tried is None else bound_of(tried.estimate),
                    "low": low,
                    "high": high,
                    "num_meta": planned.plan.metas[1],
                    "num_runs": 0 if tried is None else tried.num_runs,
                    **error_record(self.tolerance, None if tried is None else tried.closeness),
                    "outcome": self._why_not(planned) if tried is None else tried.outcome,
                }
            )
        return found

    def rows(self) -> list[tuple[str, str]]:
        """The order of the settings, the confidence, the runs, and outputs that may be missing."""
        found = [
            ("cost", f"Settings are ordered by {self.cost}."),
            (
                "confidence",
                f"The chosen setting is above the tolerance with probability {self._rate} at "
                "most, however many settings were tried.",
            ),
            ("in all", f"{self.num_runs:,} runs were made, pilots included."),
        ]
        if self.best is not None:
            share = max(self.best.estimate.unseen(LEVEL))
            text = f"Outputs rarer than {share:.2%} may be missing"
            added = "move a mean or an sd further, if they lie far out"
            if not isinstance(self.tolerance, ErrorTolerance):
                added = "add any number of nats"
            found.append(("unseen", f"{text}; they could {added}."))
        return found

    @property
    def _rate(self) -> str:
        return "5%" if isinstance(self.tolerance, ErrorTolerance) else "2.5%"

    @property
    def notes(self) -> tuple[str, ...]:
        """Settings that looseness leaves undecided, and the notes of the best estimate."""
        loose = [
            planned.name
            for planned in self.ladder
            if (
                self.tried[planned.index].is_loose
                if planned.index in self.tried
                else planned.is_blocked_by_looseness(self.tolerance)
            )
        ]
        found = []
        if loose:
            found.append(
                f"At {'; '.join(loose)} the looseness of the bound, not the algorithm, may be why "
                "the setting did not pass: better meta-inference (aide.refine, another proposal) "
                "could show that a cheaper setting is close enough."
            )
        if self.best is None and not loose:
            found.append("Add costlier settings, allow a larger tolerance, or a larger budget.")
        return (*found, *(() if self.best is None else self.best.estimate.notes))

    def numbers(self) -> dict[str, Any]:
        """The numbers of the choice; `upper` is in nats, and `None` for a tolerance of errors."""
        is_errors = isinstance(self.tolerance, ErrorTolerance)
        return {
            "tolerance": self._wanted if is_errors else self.tolerance,
            "setting": self.setting,
            "upper": None if self.best is None or is_errors else self.best.limits[1],
            "gold": self.gold,
            "gold_trust": None if self.trust is None else self.trust.outcome,
            "num_runs": self.num_runs,
        }

    def layout(self) -> PanelGrid:
        """Two panels side by side."""
        return PanelGrid(1, 2, (9.0, 3.6))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot tested settings with their bands, and pilots of the others as crosses."""
        settings = [planned.setting for planned in self.ladder]
        axis = axis_of(settings) if len(settings) > 1 else None
        places = {
            planned.index: float(rank if axis is None else planned.setting[axis])
            for rank, planned in enumerate(self.ladder, 1)
        }
        costs = {planned.index: planned.cost for planned in self.ladder}
        names = ("setting" if axis is None else axis, self.cost)
        for panel, where, name in zip(panels, (places, costs), names, strict=False):
            others = [p for p in self.ladder if p.index not in self.tried]
            is_errors = isinstance(self.tolerance, ErrorTolerance)
            panel.plot(
                [where[p.index] for p in others],
                [p.share if is_errors else p.plan.bound for p in others],
                "x",
                color="grey",
                label="pilot",
            )
            points = [one.point() for one in self.tried.values()]
            tried = [where[i] for i in self.tried]
            plot_points(panel, tried, points, self.tolerance, others=list(where.values()))
            panel.set_xlabel(name)
