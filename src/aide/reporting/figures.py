"""Shared parts of the plots of results. Figures have no `pyplot` state."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aide._core.algorithm import plain
from aide.reporting.grid import wrap
from aide.reporting.numbers import in_nats

SMALLEST_P = 1e-16
"""P-value below which points of a plot all have the same place: rounding in double precision."""
WIDEST_NAME = 28
"""Characters of one line of a name beside an axis; longer names get several lines."""
WIDEST_TITLE = 62
"""Characters of one line of a title, which fill the width of a panel."""
FLATTENED = 20.0
"""Ratio of the largest limit to the median one above which an axis is logarithmic."""


def as_label(text: str, width: int = WIDEST_NAME) -> str:
    """A text for a figure: in lines, without control characters, with dollars as plain signs."""
    return "\n".join(wrap(plain(text), width)).replace("$", r"\$")


def as_title(text: str) -> str:
    """A sentence above a panel, in lines of its width."""
    return as_label(text, WIDEST_TITLE)


def plain_ticks(axis: Any) -> None:
    """Ticks of a logarithmic axis: 1, 2, 5, 10, 20, … if there is room, else powers of ten."""
    from matplotlib import ticker

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0 else 4.0
    steps = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0, 3.0) if decades < 3.2 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=9))
    if decades < 1.0:  # only few of 1, 2, 5 would lie in the range
        axis.set_major_locator(ticker.MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(
        ticker.FuncFormatter(lambda x, _: f"{x:,.6g}" if x < 1e6 else f"{x:g}")
    )
    axis.set_minor_locator(ticker.NullLocator())


def few_ticks(axis: Any, whole: bool = False) -> None:
    """Ticks of a linear axis that leave room for their labels."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.MaxNLocator(4, integer=whole, min_n_ticks=1))


def spread_out(axis: Any, ends: np.ndarray) -> None:
    """Make an axis logarithmic, linear about 0, if one large number would flatten all others."""
    from matplotlib import ticker

    sizes = np.abs(ends[np.isfinite(ends) & (ends != 0)])
    if not sizes.size or sizes.max() < FLATTENED * np.median(sizes):
        few_ticks(axis.xaxis)
        return
    least = 10.0 ** np.floor(np.log10(sizes.min()))
    axis.set_xscale("symlog", linthresh=least, linscale=0.5)
    axis.xaxis.set_major_locator(ticker.SymmetricalLogLocator(base=10, linthresh=least))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())


class PanelGrid(NamedTuple):
    """Panels of a new figure: rows and columns, size in inches, options of `subplots`."""

    rows: int = 1
    columns: int = 1
    size: tuple[float, float] = (5.6, 3.4)
    options: Any = None


def panels_of(axes: Any, layout: PanelGrid) -> np.ndarray:
    """The given matplotlib axes in a row, or those of a new figure."""
    if axes is None:
        from aide.reporting.picture import Picture  # needs matplotlib

        figure = Picture(figsize=layout.size, layout="constrained")
        axes = figure.subplots(layout.rows, layout.columns, **(layout.options or {}))
    return np.atleast_1d(np.asarray(axes, object)).ravel()


def plot_limits(
    axis: Any,
    names: Sequence[str],
    limits: Sequence[tuple[float, float]],
    values: Sequence[float],
    tolerance: float | None = None,
) -> None:
    """Plot intervals, one above the other, with the estimate in each; infinite ends are open.

    The axis is logarithmic if one interval is much farther away than the others.
    """
    place = np.arange(len(names))[::-1]
    finite = [end for pair in limits for end in pair if np.isfinite(end)]
    far = 2 * max([abs(end) for end in finite] or [1.0])
    ends = np.clip(np.array(limits, float).reshape(-1, 2), -far, far)
    spread_out(axis, ends[:, 1])
    axis.hlines(place, ends[:, 0], ends[:, 1], color="#1f6fb4", lw=2)
    shown = np.isfinite(values)
    axis.plot(np.asarray(values)[shown], place[shown], "o", color="#1f6fb4", ms=4)
    if tolerance is not None:
        axis.axvline(tolerance, color="grey", ls="--", lw=1, label=in_nats(tolerance))
        axis.legend(frameon=False)
    axis.axvline(0.0, color="grey", lw=0.5)
    axis.set_yticks(place, [as_label(name) for name in names])
    axis.set_ylim(-0.7, len(names) - 0.3)


def plot_p_values(axis: Any, names: Sequence[str], values: Sequence[float], level: float) -> None:
    """Plot p-values of several tests on a log scale; those left of the line are rejections."""
    place = np.arange(len(names))[::-1]
    axis.plot(np.maximum(values, SMALLEST_P), place, "o", color="#1f6fb4", ms=4)
    axis.axvline(level, color="#b3392f", ls="--", lw=1, label=f"alarm below {level:.2g}")
    axis.set(xscale="log", xlabel="p-value")
    axis.set_yticks(place, [as_label(name) for name in names])
    axis.set_ylim(-0.7, len(names) - 0.3)
    axis.legend(frameon=False)
