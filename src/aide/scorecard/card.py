"""The card: rows read from a folder, as a table, figures and the sentences that matter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aide.reporting.figures import PanelGrid, as_label
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, in_nats, short, with_error
from aide.reporting.result import Result

MADE = "gold standard"
"""The row in which `aide.gold_standard` is measured by the reference draws."""
SILENT_K_HAT = 0.7
"""k-hat up to which importance weights count as good (Vehtari et al. 2024)."""
MOST_Z = 4.0
"""Standard errors above which two gold standards differ by more than chance."""
Row = Mapping[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class Scorecard(Result):
    """What usual algorithms reach on posteriors whose truth is known.

    Attributes:
        cells: One dictionary per posterior and algorithm, as it stands in its file.
        settings: What all rows share: seed, runs, tolerance.
    """

    cells: tuple[Row, ...]
    settings: Mapping[str, Any]

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
    def silent(self) -> tuple[Row, ...]:
        """Rows that failed the tolerance although k-hat calls their weights good."""
        return tuple(
            row
            for row in self.measured
            if row["verdict"] == FAILED
            and row.get("k_hat") is not None
            and number(row["k_hat"]) <= SILENT_K_HAT
        )

    @property
    def disagreements(self) -> tuple[Row, ...]:
        """Made gold standards that differ from the reference draws and do not say so."""
        return tuple(
            row
            for row in self.made
            if row["own_verdict"] == PASSED
            and (row["verdict"] == FAILED or number(row["largest_z"]) > MOST_Z)
        )

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
        lines = []
        for name in algorithms:
            rows = [row for row in self.measured if row["algorithm"] == name]
            nats = np.array([number(row["value"]) for row in rows])
            seconds = np.array([number(row["seconds_fit"]) for row in rows])
            passed, failed = (
                sum(row["verdict"] == one for row in rows) for one in (PASSED, FAILED)
            )
            middle = short(float(np.median(nats)), 2), short(float(np.max(nats)), 2)
            seconds_shown = short(float(np.median(seconds)), 2)
            lines.append((name, str(len(rows)), str(passed), str(failed), *middle, seconds_shown))
        titles = (
            *("algorithm", "posteriors", "passed", "failed"),
            *("median nats", "largest nats", "median seconds"),
        )
        return Grid(titles, tuple(lines), ("",) * len(lines), frozenset({"algorithm"}))

    def rows(self) -> list[tuple[str, str]]:
        """What the verdicts mean, how the gold standards agree, where diagnostics are silent."""
        tolerance = self.settings.get("tolerance")
        asked = in_nats(tolerance) if isinstance(tolerance, int | float) else tolerance
        silent = ", ".join(f"{r['posterior']} ({r['algorithm']})" for r in self.silent[:5])
        found = [
            ("tolerance", f"A row passes if it is shown, at 95%, to be within: {asked}."),
            (
                "k-hat",
                f"{len(self.silent)} rows fail although k-hat is at most {SILENT_K_HAT:g}"
                + (f", such as {silent}." if silent else "."),
            ),
        ]
        if self.made:
            agree = sum(row["verdict"] == PASSED for row in self.made)
            unsaid = ", ".join(row["posterior"] for row in self.disagreements)
            found.append(
                (
                    "gold standards",
                    f"{agree} of {len(self.made)} made gold standards were shown to be within 0.1 "
                    "nats of the reference draws. "
                    + (
                        f"These differ without saying so: {unsaid}."
                        if unsaid
                        else "None differs from them without saying so."
                    ),
                )
            )
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows without a number, with the reason."""
        by_reason: dict[str, list[str]] = {}
        for row in self.failed:
            by_reason.setdefault(row["reason"], []).append(f"{row['posterior']} {row['algorithm']}")
        return tuple(
            f"{', '.join(names[:4])}{' and others' if len(names) > 4 else ''}: {reason}"
            for reason, names in by_reason.items()
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
        """Counts of rows."""
        return {
            "num_rows": len(self.cells),
            "num_failed": len(self.failed),
            "num_silent": len(self.silent),
            "num_made": len(self.made),
            "num_disagreements": len(self.disagreements),
        }

    def layout(self) -> PanelGrid:
        """A heat map, and accuracy against cost."""
        num = len({row["posterior"] for row in self.measured})
        return PanelGrid(1, 2, (12.0, max(4.0, 0.22 * num)), {"width_ratios": (3, 2)})

    def plot_on(self, panels: np.ndarray) -> None:
        """Left: nats by posterior and algorithm. Right: nats against seconds of fitting."""
        plot_heat(panels[0], self.measured)
        if len(panels) > 1:
            plot_costs(panels[1], self.measured)

    def markdown(self) -> str:
        """All rows as a table of a page, one line per posterior and algorithm."""
        titles = (
            *("posterior", "d", "algorithm", "divergence (nats)", "95%", "means off ≤ (sd)"),
            *("worst sd ratio", "any probability ≤", "k-hat", "looseness", "seconds", "verdict"),
        )
        lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in self.cells]
        return "\n".join(lines) + "\n"


def number(value: Any) -> float:
    """Return a number that JSON may have kept as the text `inf`, `-inf` or `nan`."""
    return float("nan") if value is None else float(value)


def read_scorecard(out: str | Path) -> Scorecard:
    """Read the card of a folder that `scorecard` wrote, finished or not."""
    path = Path(out) / "card.json"
    if not path.exists():
        raise ValueError(f"{out} holds no card: aide scorecard DIR --out {out} makes one.")
    settings = json.loads(path.read_text())["settings"]
    files = sorted(Path(out).glob("*/*.json"))
    cells = [json.loads(file.read_text()) for file in files]
    order = {name: place for place, name in enumerate(_algorithms())}
    cells.sort(key=lambda row: (row["posterior"], order.get(row["algorithm"], len(order))))
    return Scorecard(tuple(cells), settings)


def plot_heat(axis: Any, rows: tuple[Row, ...]) -> None:
    """Draw log10 of the divergence for each posterior and algorithm; white has no number."""
    posteriors = sorted({row["posterior"] for row in rows})
    algorithms = [name for name in _algorithms() if any(r["algorithm"] == name for r in rows)]
    heat = np.full((len(posteriors), len(algorithms)), np.nan)
    for row in rows:
        place = posteriors.index(row["posterior"]), algorithms.index(row["algorithm"])
        heat[place] = np.log10(np.clip(number(row["value"]), 1e-3, 1e3))
    image = axis.imshow(heat, aspect="auto", cmap="viridis_r", vmin=-2, vmax=2)
    axis.set_yticks(range(len(posteriors)), posteriors, fontsize=7)
    labels = [as_label(name, 12) for name in algorithms]
    axis.set_xticks(range(len(algorithms)), labels, fontsize=7)
    bar = axis.figure.colorbar(image, ax=axis, extend="both", shrink=0.6)
    bar.set_ticks([-2, -1, 0, 1, 2], labels=["0.01", "0.1", "1", "10", "100"])
    bar.set_label("nats")


def plot_costs(axis: Any, rows: tuple[Row, ...]) -> None:
    """Draw nats against seconds of fitting, one colour for each algorithm."""
    for name in _algorithms():
        chosen = [row for row in rows if row["algorithm"] == name]
        if chosen:
            seconds = [number(row["seconds_fit"]) for row in chosen]
            nats = np.clip([number(row["value"]) for row in chosen], 1e-3, 1e3)
            axis.plot(seconds, nats, "o", ms=4, alpha=0.7, label=name)
    axis.set(xscale="log", yscale="log", xlabel="seconds of fitting", ylabel="nats")
    axis.legend(frameon=False, fontsize=7)


def _algorithms() -> tuple[str, ...]:
    from aide.scorecard.algorithms import ALGORITHMS

    return (*ALGORITHMS, MADE)


def _cells(row: Row) -> tuple[str, ...]:
    name, dimension = row["posterior"], str(row.get("dimension", "–"))
    if "reason" in row:
        return (name, dimension, row["algorithm"], row["reason"], *("–",) * 8)

    def shown(entry: str, digits: int = 2) -> str:
        return "–" if row.get(entry) is None else short(number(row[entry]), digits)

    return (
        *(name, dimension, row["algorithm"]),
        with_error(number(row["value"]), number(row["std_error"])),
        f"{shown('low')} to {shown('high')}",
        *(shown("means_off"), shown("worst_sd_ratio"), shown("total_variation")),
        *(shown("k_hat"), shown("looseness"), shown("seconds_fit"), row["verdict"] or "–"),
    )
