"""Rows of `results.csv`, one per setting."""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from io import StringIO
from typing import Any

from aide.estimation.summary import Estimate


@dataclass(frozen=True)
class Row:
    """One setting and its results; empty cells do not apply.

    Everything up to `meta` identifies the setting; the rest are results.
    """

    experiment: str
    algorithm: str
    proposal: str = ""
    num_particles: int | None = None
    num_steps: int | None = None
    num_sweeps: int | None = None
    gold: str = "exact"
    num_meta_gold: int = 1
    num_meta_target: int = 1
    num_gold: int = 0
    num_target: int = 0
    meta: str = "canonical"
    value: float | None = None
    std_error: float | None = None
    gold_to_target: float | None = None
    target_to_gold: float | None = None
    probe: float | None = None
    probe_std_error: float | None = None
    log_evidence: float | None = None
    log_evidence_std_error: float | None = None

    @property
    def setting(self) -> tuple[str, ...]:
        """What identifies the row, as text."""
        cells = list(asdict(self).values())
        return tuple("" if cell is None else str(cell) for cell in cells[:NUM_SETTINGS])


COLUMNS = tuple(field.name for field in fields(Row))
NUM_SETTINGS = COLUMNS.index("meta") + 1
_INTEGERS = {name for name in COLUMNS if name.startswith("num_")}
_TEXTS = {"experiment", "algorithm", "proposal", "gold", "meta"}


def results_of(estimate: Estimate) -> dict[str, Any]:
    """The result cells of an estimate."""
    return {
        "value": estimate.value,
        "std_error": estimate.std_error,
        "gold_to_target": estimate.gold_to_target.value,
        "target_to_gold": estimate.target_to_gold.value,
    }


def format_rows(rows: Iterable[Row]) -> str:
    """The text of `results.csv`."""
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(["" if cell is None else cell for cell in asdict(row).values()])
    return text.getvalue()


def parse_rows(text: str) -> list[Row]:
    """The inverse of `format_rows`."""
    return [
        Row(**{name: _cell(name, cell) for name, cell in line.items()})
        for line in csv.DictReader(StringIO(text, newline=""))
    ]


def _cell(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    if text == "":
        return None
    return int(text) if name in _INTEGERS else float(text)
