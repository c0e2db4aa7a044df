"""The rows of `results.csv` from runs, and the curves of a figure."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from io import StringIO
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import TARGET
from aide.engine.draw import draw
from aide.engine.draws import Draws
from aide.estimation.summary import Estimate


class SharedGold:
    """A gold standard, its runs, and the number of runs that all targets share."""

    def __init__(self, algorithm: InferenceAlgorithm, seed: int, num_runs: int):
        self.algorithm, self.num_runs = algorithm, num_runs
        self.key = jax.random.key(seed)
        self._draws: Draws | None = None

    def measure(self, target: InferenceAlgorithm, num_meta: int = 1) -> Draws:
        """Runs of the target and scores of both, with outputs."""
        draws = draw(
            self.key,
            self.algorithm,
            target,
            num_gold=self.num_runs,
            num_target=self.num_runs,
            num_meta_target=num_meta,
            keep_values=True,
            share=self._draws,
            measure_looseness=False,
            progress=False,
        )
        self._draws = draws
        return draws


def estimates_for(draws: Draws, metas: Sequence[int]) -> list[Estimate]:
    """The estimate at each of several smaller numbers of meta-inference runs of the target."""
    return [Estimate(draws.with_num_meta(TARGET, meta)) for meta in metas]


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
        """The cells that identify the row, as text."""
        cells = list(asdict(self).values())
        return tuple("" if cell is None else str(cell) for cell in cells[:NUM_SETTINGS])


COLUMNS = tuple(field.name for field in fields(Row))
"""Headings of `results.csv`."""
NUM_SETTINGS = COLUMNS.index("meta") + 1
"""Number of columns that identify a row."""
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


def new_figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> Any:
    """A figure without `pyplot` state, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def plot_curve(
    axis: Any,
    rows: Sequence[Row],
    x: str,
    value: str = "value",
    error: str = "std_error",
    **style: Any,
) -> None:
    """One curve with a band of one standard error."""
    ordered = sorted(rows, key=lambda row: getattr(row, x))
    if not ordered:
        return
    xs = np.array([getattr(row, x) for row in ordered], float)
    ys = np.array([getattr(row, value) for row in ordered], float)
    errors = np.array([getattr(row, error) for row in ordered], float)
    (line,) = axis.plot(xs, ys, marker="o", markersize=3, **style)
    axis.fill_between(xs, ys - errors, ys + errors, color=line.get_color(), alpha=0.25, lw=0)


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows whose columns have the given values."""
    return [r for r in rows if all(getattr(r, name) == value for name, value in wanted.items())]
