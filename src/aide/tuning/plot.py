"""Curves of settings: data are prepared elsewhere; this file only draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aide.estimation.errors.tolerance import ErrorTolerance, Tolerance, tolerance_words
from aide.reporting.figures import few_ticks, plain_ticks
from aide.tuning.point import Point

COLOUR = "#1f6fb4"


def plot_points(
    axis: Any,
    places: Sequence[float],
    points: Sequence[Point],
    tolerance: Tolerance | None = None,
    label: str = "",
) -> Any:
    """The bound against something, with its 95% band; scales are logarithmic if they can be.

    With a tolerance of errors, the largest error over its tolerance instead of the bound.
    """
    is_errors = isinstance(tolerance, ErrorTolerance)
    order = np.argsort(places, kind="stable")
    x = np.asarray(places, float)[order]
    bands = [_band(points[index], is_errors) for index in order]
    value, low, high = np.array(bands, float).reshape(-1, 3).T
    finite = np.isfinite(value) & np.isfinite(high)
    axis.plot(x[finite], value[finite], "o-", color=COLOUR, ms=3, lw=1, label=label or None)
    axis.fill_between(x[finite], low[finite], high[finite], color=COLOUR, alpha=0.2, lw=0)
    if tolerance is not None:
        level = 1.0 if isinstance(tolerance, ErrorTolerance) else tolerance
        axis.axhline(level, color="grey", ls="--", lw=1, label=tolerance_words(tolerance))
        axis.legend(frameon=False)
    if finite.any() and (x > 0).all() and x.max() > 5 * x.min():
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
    else:
        few_ticks(axis.xaxis)
    if finite.any() and (value[finite] > 0).all():
        axis.set_yscale("log")
        plain_ticks(axis.yaxis)
    label = "largest error / tolerance" if is_errors else "bound on the divergence (nats)"
    axis.set_ylabel(label)
    return axis


def _band(point: Point, is_errors: bool) -> tuple[float, float, float]:
    """Value, lower and upper limit."""
    if not is_errors:
        return point.bound, point.low, point.high
    if point.closeness is None:
        return np.nan, np.nan, np.nan
    low, value, high = point.closeness.shares
    return value, low, high
