"""What the figures share: curves with error bands."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aide.experiments.table import Row


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
