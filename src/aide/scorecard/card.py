"""The card: rows read from a folder, as a table, figures and the sentences that matter."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, in_nats, short
from aide.reporting.result import Result
from aide.scorecard.pictures import number, plot_costs, plot_gold_standards, plot_heat, plot_k_hats
from aide.scorecard.tables import TABLES, as_markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MADE = "gold standard"
"""The row in which `aide.gold_standard` is measured by the reference draws."""
SILENT_K_HAT, SILENT_RHAT = 0.7, 1.01
"""Up to here k-hat (Vehtari et al. 2024) and R-hat (Vehtari et al. 2021) raise no doubt."""
MOST_Z = 4.0
"""Standard errors above which two gold standards differ by more than chance."""
AGREE = 0.1
"""Nats to which a made gold standard shall agree with the reference draws."""
Row = Mapping[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class Scorecard(Result):
    """What usual algorithms reach on posteriors whose truth is known.

    Attributes:
        cells: One dictionary per posterior and algorithm, as it stands in its file.
        settings: What all rows share: seed, runs, tolerance.
        order: Names of algorithms, in the order of figures.
    """

    cells: tuple[Row, ...]
    settings: Mapping[str, Any]
    order: tuple[str, ...] = ()

    @cached_property
    def measured(self) -> tuple[Row, ...]:
        """Rows of algorithms that have a number."""
        return tuple(r for r in self.cells if "reason" not in r and r["algorithm"] != MADE)

    @cached_property
    def made(self) -> tuple[Row, ...]:
        """Rows of gold standards that were made."""
        return tuple(r for r in self.cells if "reason" not in r and r["algorithm"] == MADE)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Rows with a reason in place of a number."""
        return tuple(row for row in self.cells if "reason" in row)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Posterior and algorithm of rows that were not run yet."""
        found = {(row["posterior"], row["algorithm"]) for row in self.cells}
        posteriors = dict.fromkeys(row["posterior"] for row in self.cells)
        every = [(name, algorithm) for name in posteriors for algorithm in self.order]
        return tuple(pair for pair in every if pair not in found)

    @property
    def silent(self) -> tuple[Row, ...]:
        """Rows that failed the tolerance although k-hat calls their weights good."""
        return self._silent("k_hat", SILENT_K_HAT)

    @property
    def silent_rhat(self) -> tuple[Row, ...]:
        """Rows that failed the tolerance although R-hat calls their chains mixed."""
        return self._silent("rhat", SILENT_RHAT)

    def _silent(self, entry: str, most: float) -> tuple[Row, ...]:
        return tuple(
            row
            for row in self.measured
            if row["verdict"] == FAILED and number(row.get(entry)) <= most
        )

    @property
    def agreeing(self) -> tuple[Row, ...]:
        """Made gold standards that were shown to be within 0.1 nats of the reference draws."""
        return tuple(row for row in self.made if row["verdict"] == PASSED)

    @property
    def flagged(self) -> tuple[Row, ...]:
        """Made gold standards whose own words say that they are not to be trusted."""
        return tuple(row for row in self.made if row["own_verdict"] != PASSED or row["own_doubts"])

    @property
    def disagreements(self) -> tuple[Row, ...]:
        """Made gold standards that differ from the reference draws and do not say so."""
        flagged = {row["posterior"] for row in self.flagged}
        return tuple(
            row
            for row in self.made
            if row["posterior"] not in flagged
            and (row["verdict"] == FAILED or number(row["largest_z"]) > MOST_Z)
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Where the time went: seconds of processes, added over all rows."""
        rows = (*self.measured, *self.made)

        def total(chosen: Sequence[Row], entry: Callable[[Row], float]) -> float:
            return float(sum(entry(row) for row in chosen))

        def runs(part: str) -> Callable[[Row], float]:
            return lambda r: number(r[f"seconds_{part}"]) - number(r[f"seconds_{part}_compile"])

        loads = {row["posterior"]: number(row["seconds_load"]) for row in rows}
        compiled = ("seconds_fit_compile", "seconds_measure_compile")
        return {
            "loading and score checks": sum(loads.values()),
            "compilation": total(rows, lambda r: sum(number(r[one]) for one in compiled)),
            "fits": total(self.measured, runs("fit")),
            "making gold standards": total(self.made, runs("fit")),
            "measuring": total(rows, runs("measure")),
        }

    @property
    def headline(self) -> str:
        """How many posteriors and rows there are."""
        posteriors = {row["posterior"] for row in self.cells}
        rows = len(self.measured) + len(self.made)
        return (
            f"Posteriors: {len(posteriors)}. Rows measured: {rows}. Rows without a number: "
            f"{len(self.failed)}."
        )

    def grid(self) -> Grid | None:
        """One line per algorithm: on how many posteriors it passes, and its divergences."""
        algorithms = list(dict.fromkeys(row["algorithm"] for row in self.measured))
        if not algorithms:
            return None
        lines = []
        for name in algorithms:
            rows = [row for row in self.measured if row["algorithm"] == name]
            nats = np.array([number(row["value"]) for row in rows])
            seconds = np.array([number(row["seconds_fit"]) for row in rows])
            verdicts = [row["verdict"] for row in rows]
            counts = [str(verdicts.count(one)) for one in (PASSED, UNDECIDED, FAILED)]
            middle = short(float(np.median(nats)), 2), short(float(np.max(nats)), 2)
            seconds_shown = short(float(np.median(seconds)), 2)
            lines.append((name, str(len(rows)), *counts, *middle, seconds_shown))
        titles = (
            *("algorithm", "rows", "passed", "undecided", "failed"),
            *("median nats", "largest nats", "median seconds"),
        )
        words, left_out = frozenset({"algorithm"}), ("median seconds",)
        return Grid(titles, tuple(lines), ("",) * len(lines), words, left_out)

    def rows(self) -> list[tuple[str, str]]:
        """What the verdicts mean, how the gold standards agree, where diagnostics are silent."""
        tolerance = self.settings.get("tolerance")
        asked = in_nats(tolerance) if isinstance(tolerance, int | float) else tolerance
        found = [
            ("tolerance", f"A row passes if it is shown, at 95%, to be within: {asked}."),
            ("k-hat", self._silent_words("k-hat", SILENT_K_HAT, self.silent)),
            ("R-hat", self._silent_words("R-hat", SILENT_RHAT, self.silent_rhat)),
        ]
        if self.made:
            found.append(("gold standards", self._gold_words()))
        if self.measured or self.made:
            parts = [f"{part} {short(one / 60, 2)}" for part, one in self.seconds.items()]
            found.append(("time", f"Minutes of processes: {', '.join(parts)}."))
        return found

    def _silent_words(self, name: str, most: float, rows: Sequence[Row]) -> str:
        such = ", ".join(f"{r['posterior']} ({r['algorithm']})" for r in rows[:5])
        words = f"{len(rows)} rows fail although {name} is at most {most:g}"
        return f"{words}, such as {such}." if such else f"{words}."

    def _gold_words(self) -> str:
        near = sum(number(row["value"]) <= AGREE for row in self.made)
        safe = {row["posterior"] for row in (*self.agreeing, *self.flagged)}
        unsaid = ", ".join(row["posterior"] for row in self.disagreements)
        last = (
            f"These differ from the reference draws without saying so: {unsaid}."
            if unsaid
            else f"None differs by more than {MOST_Z:g} standard errors without saying so."
        )
        return (
            f"Of {len(self.made)} made gold standards {near} are estimated to be within {AGREE:g} "
            f"nats of the reference draws, {len(self.agreeing)} are shown to be at 95%, "
            f"{len(self.flagged)} say that they are not to be trusted; shown or flagged: "
            f"{len(safe)}. {last}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows without a number, with the reason."""
        by_reason: dict[str, list[str]] = {}
        for row in self.failed:
            by_reason.setdefault(row["reason"], []).append(f"{row['posterior']} {row['algorithm']}")
        return tuple(
            f"{len(names)} rows, {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}: "
            f"{reason}"
            for reason, names in sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
        )

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per row of the card, with the same entries in all."""
        names = dict.fromkeys(
            name
            for row in self.cells
            for name, value in row.items()
            if not isinstance(value, list | dict)
        )
        return [{name: row.get(name) for name in names} for row in self.cells]

    def numbers(self) -> dict[str, Any]:
        """Counts of rows, and seconds."""
        return {
            "num_rows": len(self.cells),
            "num_failed": len(self.failed),
            "num_silent": len(self.silent),
            "num_silent_rhat": len(self.silent_rhat),
            "num_made": len(self.made),
            "num_agreeing": len(self.agreeing),
            "num_flagged": len(self.flagged),
            "num_disagreements": len(self.disagreements),
            "seconds": self.seconds,
        }

    def layout(self) -> PanelGrid:
        """A heat map, and accuracy against cost."""
        num = len({row["posterior"] for row in self.cells})
        return PanelGrid(1, 2, (12.0, max(4.0, 0.22 * num)), {"width_ratios": (3, 2)})

    def plot_on(self, panels: np.ndarray) -> None:
        """Left: nats by posterior and algorithm. Right: nats against gradients."""
        plot_heat(panels[0], self.cells, self.order)
        if len(panels) > 1:
            plot_costs(panels[1], self.measured, self.order)

    def plot_heat(self, axis: "Axes") -> None:
        """Draw nats by posterior and algorithm on matplotlib axes; failed cells are marked."""
        plot_heat(axis, self.cells, self.order)

    def plot_costs(self, axis: "Axes") -> None:
        """Draw nats against gradients on matplotlib axes."""
        plot_costs(axis, self.measured, self.order)

    def plot_k_hats(self, axis: "Axes") -> None:
        """Draw the largest error of a mean against k-hat on matplotlib axes."""
        plot_k_hats(axis, self.measured, self.order, SILENT_K_HAT)

    def plot_gold_standards(self, axis: "Axes") -> None:
        """Draw the divergence of made gold standards from reference draws, with limits."""
        flagged = {row["posterior"] for row in self.flagged}
        plot_gold_standards(axis, self.made, flagged, AGREE)

    def table(self, name: str = "rows") -> list[dict[str, str]]:
        """Return a table for a page, as one dictionary of texts per line.

        Args:
            name: `rows`, `algorithms`, `silent` (rows that fail although k-hat or R-hat raises no
                doubt), `gold standards`, `reasons` (of rows without a number) or `seconds`.
        """
        if name not in TABLES:
            raise ValueError(f"name must be among {', '.join(TABLES)}, got {name!r}.")
        return list(TABLES[name](self))

    def row(self, posterior: str, algorithm: str) -> Row:
        """Return the row of a posterior and an algorithm."""
        for row in self.cells:
            if (row["posterior"], row["algorithm"]) == (posterior, algorithm):
                return row
        raise ValueError(f"the card has no row of {posterior} and {algorithm}.")

    def markdown(self) -> str:
        """All rows as a table of a page, one line per posterior and algorithm."""
        return as_markdown(self.table())


def read_scorecard(out: str | Path) -> Scorecard:
    """Read the card of a folder that `scorecard` wrote, finished or not."""
    from aide.scorecard.algorithms import ALGORITHMS

    path = Path(out) / "card.json"
    if not path.exists():
        raise ValueError(f"{out} holds no card: aide scorecard DIR --out {out} makes one.")
    settings = json.loads(path.read_text())["settings"]
    cells = [json.loads(file.read_text()) for file in sorted(Path(out).glob("*/*.json"))]
    names = (*ALGORITHMS, MADE)
    place = {name: position for position, name in enumerate(names)}
    cells.sort(key=lambda row: (row["posterior"], place.get(row["algorithm"], len(place))))
    return Scorecard(tuple(cells), settings, names)
