"""Figures of a report, as SVG texts."""

from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from aide.estimation.errors.tolerance import ErrorTolerance, Tolerance
from aide.estimation.plot import (
    pictures_of,
    plot_directions,
    plot_meta_curve,
    plot_sandwich,
    plot_terms,
)
from aide.estimation.summary import Estimate
from aide.reporting.result import Result

TITLES: dict[Any, str] = {
    plot_meta_curve: "the bound against M",
    plot_directions: "directions",
    plot_terms: "log ratios of the two densities",
}


def own_figures(result: Result) -> list[dict[str, str]]:
    """Title and SVG of what a result shows beside its estimates."""
    if isinstance(result, Estimate):
        return []
    return [{"title": _title(result), "svg": svg_of(result.plot())}]


def figures_of(estimate: Estimate, tolerance: Tolerance | None) -> list[dict[str, str]]:
    """Titles and SVG of all curves of one estimate."""
    found = [
        {"title": TITLES[draw], "svg": _panel(draw, estimate)} for draw in pictures_of(estimate)
    ]
    if tolerance is not None and not isinstance(tolerance, ErrorTolerance):
        figure = Figure(figsize=(5.2, 1.5), layout="constrained")
        plot_sandwich(figure.subplots(), estimate, tolerance)
        found.append({"title": "sandwich and tolerance", "svg": svg_of(figure)})
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
