"""The references that were made, and those that could not be, as a result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import short, with_error
from aide.reporting.result import Result

Row = Mapping[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class References(Result):
    """References for posteriors that had none.

    Attributes:
        cells: One dictionary per posterior, as it stands in its file.
        checks: Comparisons with long runs of NUTS, by the name of the posterior.
    """

    cells: tuple[Row, ...]
    checks: Mapping[str, Row]

    @property
    def made(self) -> tuple[Row, ...]:
        """Rows of references that were written."""
        return tuple(row for row in self.cells if "reason" not in row)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Rows with a reason in place of a reference."""
        return tuple(row for row in self.cells if "reason" in row)

    @property
    def headline(self) -> str:
        """How many references there are."""
        return (
            f"References made: {len(self.made)}. Posteriors without one: {len(self.failed)}. "
            f"Compared with NUTS: {len(self.checks)}."
        )

    def grid(self) -> Grid | None:
        """One line per reference."""
        titles = ("posterior", "variables", "looseness", "log evidence", "seconds", "z of NUTS")
        lines = []
        for row in self.made:
            check = self.checks.get(row["name"], {})
            seconds = float(row["seconds_gold"]) + float(row["seconds_draws"])
            worst = f"{float(check['largest_z']):.1f}" if "largest_z" in check else "–"
            numbers = (with_error(*row["looseness_nats"]), with_error(*row["log_evidence"]))
            cells = (row["name"], str(row["dimension"]), *numbers, short(seconds, 2), worst)
            lines.append(cells)
        if not lines:
            return None
        return Grid(titles, tuple(lines), ("",) * len(lines), frozenset({"posterior"}))

    def rows(self) -> list[tuple[str, str]]:
        """What the references do not show, and how far NUTS agrees."""
        found = [("not shown", "A mode that no start and no pilot of a gold standard visited.")]
        if self.checks:
            agree = sum(bool(check.get("agrees")) for check in self.checks.values())
            words = f"{agree} of {len(self.checks)} references agree with a long run of NUTS."
            found.append(("NUTS", words))
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Posteriors without a reference, with the reason."""
        by_reason: dict[str, list[str]] = {}
        for row in self.failed:
            by_reason.setdefault(row["reason"], []).append(row["name"])
        return tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per posterior."""
        return [
            {
                "posterior": row["name"],
                "dimension": row.get("dimension"),
                "looseness": row.get("looseness_nats", [None])[0],
                "log_evidence": row.get("log_evidence", [None])[0],
                "largest_z": self.checks.get(row["name"], {}).get("largest_z"),
                "reason": row.get("reason"),
            }
            for row in self.cells
        ]

    def numbers(self) -> dict[str, Any]:
        """Counts of posteriors."""
        return {
            "num_made": len(self.made),
            "num_failed": len(self.failed),
            "num_checked": len(self.checks),
        }

    def layout(self) -> PanelGrid:
        """One panel."""
        return PanelGrid()

    def plot_on(self, panels: np.ndarray) -> None:
        """Draw the largest z of each comparison with NUTS."""
        [axis] = panels.ravel()
        names = [name for name, check in self.checks.items() if "largest_z" in check]
        axis.barh(names, [float(self.checks[name]["largest_z"]) for name in names])
        axis.axvline(4.0, color="k", ls=":")
        axis.set_xlabel("largest difference of a mean or sd, standard errors")
