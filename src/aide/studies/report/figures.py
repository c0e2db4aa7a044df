"""Figures of a report, as SVG texts."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from aide.estimation.plot import (
    pictures_of,
    plot_directions,
    plot_meta_curve,
    plot_sandwich,
    plot_terms,
)
from aide.estimation.summary import Estimate
from aide.reporting.result import Result

TITLES = {
    plot_meta_curve: "the bound against M",
    plot_directions: "directions",
    plot_terms: "log ratios of the two densities",
}


def figures_of(
    result: Result, estimates: Mapping[str, Estimate], tolerance: float | None
) -> list[dict[str, str]]:
    """Titles and SVG of all curves: the result's own first, then those of every estimate."""
    found = []
    if not isinstance(result, Estimate):
        found.append({"title": _title(result), "svg": svg_of(result.plot())})
    for name, estimate in estimates.items():
        for draw in pictures_of(estimate):
            title = f"{name}: {TITLES[draw]}"
            found.append({"title": title, "svg": _panel(draw, estimate)})
        if tolerance is not None:
            figure = Figure(figsize=(5.2, 1.5), layout="constrained")
            plot_sandwich(figure.subplots(), estimate, tolerance)
            found.append({"title": f"{name}: sandwich and tolerance", "svg": svg_of(figure)})
    return found


def _title(result: Result) -> str:
    return {"Comparison": "all targets", "Tuned": "the bound against settings and cost"}.get(
        type(result).__name__, "overview"
    )


def _panel(draw: Any, estimate: Estimate) -> str:
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    draw(figure.subplots(), estimate)
    return svg_of(figure)


def svg_of(figure: Figure) -> str:
    """A figure on a transparent ground; letters are outlines, so that no font is asked for."""
    text = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "aide"}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()
