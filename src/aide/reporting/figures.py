"""What the plots of results share. Figures carry no `pyplot` state."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SMALLEST_P = 1e-16


class PanelGrid(NamedTuple):
    """Panels of a new figure: rows and columns, size in inches, options of `subplots`."""

    rows: int = 1
    columns: int = 1
    size: tuple[float, float] = (5.6, 3.4)
    options: Any = None


def panels_of(axes: Any, layout: PanelGrid) -> np.ndarray:
    """The given matplotlib axes in a row, or those of a new figure."""
    if axes is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=layout.size, layout="constrained")
        axes = figure.subplots(layout.rows, layout.columns, **(layout.options or {}))
    return np.atleast_1d(np.asarray(axes, object)).ravel()


def plot_limits(
    axis: Any,
    names: Sequence[str],
    limits: Sequence[tuple[float, float]],
    values: Sequence[float],
    tolerance: float | None = None,
) -> None:
    """Intervals, one above the other, with the estimate in each; infinite ends are left open."""
    place = np.arange(len(names))[::-1]
    finite = [end for pair in limits for end in pair if np.isfinite(end)]
    far = 2 * max([abs(end) for end in finite] or [1.0])
    ends = np.clip(np.array(limits, float).reshape(-1, 2), -far, far)
    axis.hlines(place, ends[:, 0], ends[:, 1], color="#1f6fb4", lw=2)
    shown = np.isfinite(values)
    axis.plot(np.asarray(values)[shown], place[shown], "o", color="#1f6fb4", ms=4)
    if tolerance is not None:
        axis.axvline(tolerance, color="grey", ls="--", lw=1, label=f"{tolerance:g} nats")
        axis.legend(frameon=False)
    axis.axvline(0.0, color="grey", lw=0.5)
    axis.set_yticks(place, names)
    axis.set_ylim(-0.7, len(names) - 0.3)


def plot_p_values(axis: Any, names: Sequence[str], values: Sequence[float], level: float) -> None:
    """P-values of several tests, on a log scale; those left of the line are alarms."""
    place = np.arange(len(names))[::-1]
    axis.plot(np.maximum(values, SMALLEST_P), place, "o", color="#1f6fb4", ms=4)
    axis.axvline(level, color="#b3392f", ls="--", lw=1, label=f"alarm below {level:.1g}")
    axis.set(xscale="log", xlabel="p-value")
    axis.set_yticks(place, names)
    axis.legend(frameon=False)
