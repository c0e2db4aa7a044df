"""What several targets have in common: a gold standard, and a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide.comparing.columns import COLUMNS, LEAVE_FIRST, TargetRow
from aide.comparing.differences import difference_of
from aide.estimation.closeness import LEVEL, Closeness, remedy
from aide.estimation.means import Mean
from aide.estimation.report import reference_rows
from aide.estimation.summary import Estimate
from aide.reporting.figures import PanelGrid, plot_limits
from aide.reporting.grid import Grid
from aide.reporting.result import Result
from aide.reporting.verdict import PASSED, UNDECIDED, Verdict, all_of


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Result, Mapping[str, Estimate]):
    """Estimates of several targets against one gold standard: a mapping from their names.

    Attributes:
        estimates: One `Estimate` per target; the gold standard's runs are the same in all.
        tolerance: Nats that would do, or `None`.
        closeness: Limits beside the tolerance, per target; empty without one.
    """

    estimates: Mapping[str, Estimate]
    tolerance: float | None
    closeness: Mapping[str, Closeness]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names by their bounds, the smallest first."""
        return tuple(sorted(self, key=lambda name: self[name].value))

    def difference(self, one: str, other: str) -> Mean:
        """How far the bound of `one` is above that of `other`, with the error of the difference.

        Runs are paired: the gold standard's are shared, and the targets' have the same keys.
        """
        return difference_of(self[one], self[other])

    @cached_property
    def entries(self) -> tuple[TargetRow, ...]:
        """All targets in their ranking, as the table has them."""
        best, *others = self.ranking
        first = TargetRow(best, self[best], self.closeness.get(best))
        return first, *(
            TargetRow(name, self[name], self.closeness.get(name), rank, self.difference(name, best))
            for rank, name in enumerate(others, 2)
        )

    @property
    def outcomes(self) -> dict[str, Verdict]:
        """`passed`, `failed` or `undecided` for each target; empty without a tolerance."""
        return {name: closeness.outcome for name, closeness in self.closeness.items()}

    @property
    def verdict(self) -> Verdict | None:
        """`failed` if one target failed, `passed` if all passed; `None` without a tolerance."""
        return all_of(self.outcomes.values()) if self.outcomes else None

    @property
    def headline(self) -> str:
        """How many targets, against whom, and how many are close enough."""
        gold = next(iter(self.values())).draws.gold
        num = "1 target" if len(self) == 1 else f"{len(self)} targets"
        text = f"{num} against {gold.name}, divergence in nats"
        if self.tolerance is None:
            return text
        within = sum(outcome == PASSED for outcome in self.outcomes.values())
        return f"{text}: {within} of {len(self)} within {self.tolerance:g}"

    def grid(self) -> Grid:
        """One line per target, the smallest bound first."""
        entries = self.entries
        columns = [column for column in COLUMNS if any(map(column.applies, entries))]
        return Grid(
            tuple(column.title for column in columns),
            tuple(tuple(column.text(entry) for column in columns) for entry in entries),
            tuple(self.outcomes.get(entry.name, "") for entry in entries),
            frozenset(column.title for column in columns if column.is_text),
            LEAVE_FIRST,
        )

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per target, with the same entries in all; limits at 95%."""
        return [
            {name: number for column in COLUMNS for name, number in column.numbers(entry).items()}
            for entry in self.entries
        ]

    def rows(self) -> list[tuple[str, str]]:
        """How to read the table, and what would decide what is undecided."""
        reference = reference_rows(next(iter(self.values())))[:1]
        unseen = max(share for one in self.values() for share in one.unseen(LEVEL))
        found = [*reference]
        if len(self) > 1:
            text = "how far the bound is above the smallest one (same gold runs, paired keys)"
            found.append(("behind", f"{text}; comparison.difference has its standard error"))
        found += [
            (
                "P off",
                "any probability computed from the target differs from the gold standard's by at "
                "most this (95%)",
            ),
        ]
        if self.tolerance is not None:
            text = f"the divergence is, {unseen:.1%} of the runs left out (95%)"
            found.append((f"within {self.tolerance:g}", text))
        found += [
            ("undecided", f"{entry.name}: {remedy(entry.estimate, entry.closeness)}")
            for entry in self.entries
            if entry.closeness is not None and entry.closeness.outcome == UNDECIDED
        ]
        text = f"outputs rarer than {100 * unseen:.2g}% may be missing"
        return [*found, ("unseen", f"{text}; they could add any number of nats")]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was raised on the way, and where there are notes; `comparison[name].notes`."""
        raised = [
            f"{name}: decided {self[name].look.words}."
            if self.outcomes.get(name) != UNDECIDED
            else f"{name}: undecided even {self[name].look.words}."
            for name in self.ranking
            if self[name].look.words
        ]
        noted = [name for name, estimate in self.items() if estimate.notes]
        if noted:
            raised.append(f"There are notes on {', '.join(noted)}: see comparison[name].notes.")
        return tuple(raised)

    def numbers(self) -> dict[str, Any]:
        """The tolerance, and the gold standard."""
        gold = next(iter(self.values())).draws.gold
        return {"tolerance": self.tolerance, "gold": gold.name, "num_gold": gold.num_runs}

    def layout(self) -> PanelGrid:
        """A line of its own for every target."""
        return PanelGrid(size=(6.4, 1.2 + 0.35 * len(self)))

    def draw(self, panels: np.ndarray) -> None:
        """The interval of every target in their ranking, and the tolerance."""
        entries = self.entries
        limits = [entry.estimate.interval(LEVEL) for entry in entries]
        values = [entry.estimate.value for entry in entries]
        plot_limits(panels[0], [entry.name for entry in entries], limits, values, self.tolerance)
        panels[0].set_xlabel("upper bound on the divergence (nats), 95%")
