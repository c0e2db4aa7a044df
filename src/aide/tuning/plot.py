"""Curves of settings: data are prepared elsewhere; this file only draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aide.reporting.figures import few_ticks, plain_ticks
from aide.tuning.point import Point

COLOUR = "#1f6fb4"


def plot_points(
    axis: Any,
    places: Sequence[float],
    points: Sequence[Point],
    tolerance: float | None = None,
    label: str = "",
) -> Any:
    """The bound against something, with its 95% band; scales are logarithmic if they can be."""
    order = np.argsort(places, kind="stable")
    x = np.asarray(places, float)[order]
    value, low, high = (
        np.array([getattr(points[index], name) for index in order], float)
        for name in ("bound", "low", "high")
    )
    finite = np.isfinite(value) & np.isfinite(high)
    axis.plot(x[finite], value[finite], "o-", color=COLOUR, ms=3, lw=1, label=label or None)
    axis.fill_between(x[finite], low[finite], high[finite], color=COLOUR, alpha=0.2, lw=0)
    if tolerance is not None:
        axis.axhline(tolerance, color="grey", ls="--", lw=1, label=f"{tolerance:g} nats")
        axis.legend(frameon=False)
    if finite.any() and (x > 0).all() and x.max() > 5 * x.min():
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
    else:
        few_ticks(axis.xaxis)
    if finite.any() and (value[finite] > 0).all():
        axis.set_yscale("log")
        plain_ticks(axis.yaxis)
    axis.set_ylabel("bound on the divergence (nats)")
    return axis
