"""Which setting was chosen, and why none cheaper."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from aide.comparing.columns import slack_of
from aide.estimation.closeness import LEVEL, bound_of
from aide.estimation.sandwich.balance import calm_error, calm_limits
from aide.estimation.summary import Estimate
from aide.estimation.trust import Trust
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import interval, short
from aide.reporting.result import Result
from aide.reporting.verdict import PASSED, UNDECIDED, Verdict
from aide.tuning.pilots import Planned
from aide.tuning.plot import plot_points
from aide.tuning.point import Point, seconds_words
from aide.tuning.settings import Setting, axis_of


class Tried(NamedTuple):
    """A setting whose runs were added to until it was decided, or the budget spent."""

    planned: Planned
    estimate: Estimate
    tolerance: float
    num_runs: int

    @property
    def limits(self) -> tuple[float, float]:
        """Of the bound; the upper one is one of the divergence, too."""
        return calm_limits(self.estimate.draws, self.estimate.look.level(LEVEL))

    @property
    def is_within(self) -> bool:
        """Whether it was shown to be within the tolerance."""
        return self.limits[1] <= self.tolerance

    @property
    def is_loose(self) -> bool:
        """Whether looseness, not the algorithm, may be why it was not."""
        slack = slack_of(self.estimate) or 0.0
        return not self.is_within and bound_of(self.estimate) - slack <= self.tolerance

    @property
    def outcome(self) -> str:
        """The verdict, and why there is none."""
        if self.is_within:
            return PASSED
        if self.limits[0] <= self.tolerance:
            return UNDECIDED
        return f"{UNDECIDED}: {'looseness' if self.is_loose else 'bound above'}"

    def point(self) -> Point:
        """Its numbers, as those of a sweep."""
        draws, one = self.estimate.draws, self.planned
        return Point(
            one.setting,
            one.num_particles,
            one.seconds,
            self.estimate.value,
            self.estimate.std_error,
            bound_of(self.estimate),
            *self.limits,
            slack_of(self.estimate),
            draws.target.num_meta,
            draws.target.num_runs,
            calm_error(draws),
        )


@dataclass(frozen=True, repr=False, eq=False)
class Tuned(Result):
    """The cheapest setting that was shown to be within a tolerance.

    Attributes:
        gold: The gold standard's name.
        tolerance: Largest divergence in nats that is good enough.
        ladder: Settings that were looked at, from cheap to dear.
        tried: Those that were decided, by their index in the settings as given.
        cost: What "cheap" means.
        num_runs: Runs of all of it, pilots included.
        trust: How far the gold standard can be trusted, if that is known.
    """

    gold: str
    tolerance: float
    ladder: tuple[Planned, ...]
    tried: Mapping[int, Tried]
    cost: str
    num_runs: int
    trust: Trust | None = None

    @cached_property
    def best(self) -> Tried | None:
        """The cheapest that was shown to be within; `None` if none was."""
        within = [self.tried[p.index] for p in self.ladder if self._is_within(p)]
        return within[0] if within else None

    def _is_within(self, planned: Planned) -> bool:
        return planned.index in self.tried and self.tried[planned.index].is_within

    @property
    def setting(self) -> Setting | None:
        """The parameters of the best one."""
        return None if self.best is None else self.best.planned.setting

    @property
    def estimate(self) -> Estimate | None:
        """AIDE at the best one."""
        return None if self.best is None else self.best.estimate

    @property
    def verdict(self) -> Verdict:
        """`passed` if a setting was found, otherwise `undecided`."""
        return UNDECIDED if self.best is None else PASSED

    @property
    def headline(self) -> str:
        """The setting, or that there is none."""
        if self.best is None:
            return f"No setting was shown to be within {self.tolerance:g} nats of {self.gold}"
        name, upper = self.best.planned.name, short(self.best.limits[1])
        return (
            f"The cheapest setting within {self.tolerance:g} nats of {self.gold} is {name}: its "
            f"divergence is below {upper} nats (97.5%)"
        )

    @property
    def head(self) -> tuple[str, ...]:
        """How far the gold standard can be trusted."""
        return () if self.trust is None else (self.trust.words,)

    def grid(self) -> Grid:
        """One line per setting that was looked at, from cheap to dear."""
        titles = ("setting", "one run", "bound (nats)", "95% limits", "M", "runs", "verdict")
        lines = tuple(self._line(planned) for planned in self.ladder)
        verdicts = tuple(PASSED if self._is_within(p) else "" for p in self.ladder)
        return Grid(titles, lines, verdicts, frozenset({"setting", "verdict"}), ("runs", "M"))

    def _line(self, planned: Planned) -> tuple[str, ...]:
        cost, found = seconds_words(planned.seconds), self.tried.get(planned.index)
        if found is None:
            bound = f"≈ {short(planned.plan.bound, 2)}"
            metas = str(planned.plan.metas[1])
            return planned.name, cost, bound, "–", metas, "–", self._why_not(planned)
        bound, metas = short(bound_of(found.estimate)), str(found.estimate.draws.target.num_meta)
        limits = interval(*found.limits)
        return planned.name, cost, bound, limits, metas, f"{found.num_runs:,}", found.outcome

    def _why_not(self, planned: Planned) -> str:
        if planned.is_blocked_by_looseness(self.tolerance):
            return "not tried: looseness"
        above = planned.plan.bound > self.tolerance
        return "not tried: bound above" if above else "not tried"

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per setting that was looked at."""
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
                    "outcome": self._why_not(planned) if tried is None else tried.outcome,
                }
            )
        return found

    def rows(self) -> list[tuple[str, str]]:
        """What was chosen by what, and what the chosen one says."""
        found = [
            ("cost", f"Settings are ordered by {self.cost}."),
            (
                "confidence",
                "The chosen setting is above the tolerance with probability 2.5% at most, however "
                "many settings were tried.",
            ),
            ("in all", f"{self.num_runs:,} runs were made, pilots included."),
        ]
        if self.best is not None:
            share = max(self.best.estimate.unseen(LEVEL))
            text = f"Outputs rarer than {share:.2%} may be missing"
            found.append(("unseen", f"{text}; they could add any number of nats."))
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Where looseness is in the way, and what the best estimate notes."""
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
            found.append("Add dearer settings, allow a larger tolerance, or a larger budget.")
        return (*found, *(() if self.best is None else self.best.estimate.notes))

    def numbers(self) -> dict[str, Any]:
        """The choice."""
        return {
            "tolerance": self.tolerance,
            "setting": self.setting,
            "upper": None if self.best is None else self.best.limits[1],
            "gold": self.gold,
            "gold_trust": None if self.trust is None else self.trust.outcome,
            "num_runs": self.num_runs,
        }

    def layout(self) -> PanelGrid:
        """Against the parameter, and against the cost."""
        return PanelGrid(1, 2, (9.0, 3.6))

    def draw(self, panels: np.ndarray) -> None:
        """Tried settings with their bands; pilots of the others as crosses."""
        settings = [planned.setting for planned in self.ladder]
        axis = axis_of(settings) if len(settings) > 1 else None
        places = {
            planned.index: float(rank if axis is None else planned.setting[axis])
            for rank, planned in enumerate(self.ladder, 1)
        }
        seconds = {planned.index: planned.seconds for planned in self.ladder}
        names = ("setting" if axis is None else axis, "seconds of one run")
        for panel, where, name in zip(panels, (places, seconds), names, strict=False):
            others = [p for p in self.ladder if p.index not in self.tried]
            panel.plot(
                [where[p.index] for p in others],
                [p.plan.bound for p in others],
                "x",
                color="grey",
                label="pilot",
            )
            points = [one.point() for one in self.tried.values()]
            plot_points(panel, [where[i] for i in self.tried], points, self.tolerance)
            panel.set_xlabel(name)
