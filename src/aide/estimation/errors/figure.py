"""Figure of the errors: a forest plot for every quantity, marginals of the worst variables."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide.estimation.errors.find import INTERVAL, MEAN, PROBABILITY, SD
from aide.reporting.figures import PanelGrid, as_label, few_ticks

if TYPE_CHECKING:
    from aide.estimation.errors.errors import Errors

MOST_LINES = 15
"""Largest number of variables in the figure: a choice."""
MOST_MARGINALS = 3
"""Largest number of variables with a panel for their marginals: a choice."""
HEADROOM = 1.2
"""Height of a panel of marginals relative to the highest bar, with room for the legend."""
GOLD_COLOUR = "#c8a200"
"""Colour of the gold standard."""
TARGET_COLOUR = "#1f6fb4"
"""Colour of the target."""
LABELS = {
    MEAN: ("error of the mean (gold sds)", 0.0),
    SD: ("sd, target over gold", 1.0),
    INTERVAL: ("target's 90% interval holds", 0.9),
    PROBABILITY: ("error of a probability", 0.0),
}
"""Label of the axis by quantity, and the value without an error."""


def quantities_of(errors: "Errors") -> list[str]:
    """Quantities that have a panel."""
    shown = errors.table.variables[:MOST_LINES]
    return [q for q in LABELS if any(one.of(q) is not None for one in shown)]


def forest_layout(errors: "Errors") -> PanelGrid:
    """One row of panels for quantities, and one for marginals if there are any."""
    columns = max(len(quantities_of(errors)), 1)
    rows = 2 if _marginals(errors) else 1
    lines = min(len(errors.table.variables), MOST_LINES)
    height = 1.2 + 0.34 * lines
    heights = [height, 2.4][:rows]
    return PanelGrid(
        rows, columns, (3.2 * columns, sum(heights)), {"gridspec_kw": {"height_ratios": heights}}
    )


def draw_forest(errors: "Errors", panels: np.ndarray) -> None:
    """One panel per quantity, worst variables on top; below, marginals of the worst."""
    quantities = quantities_of(errors)
    for index, quantity in enumerate(quantities[: len(panels)]):
        _draw_quantity(errors, quantity, panels[index], index == 0)
    rest = panels[len(quantities) :]
    names = _marginals(errors)[: len(rest)]
    for panel, name in zip(rest, names, strict=False):
        _draw_marginal(errors, name, panel)
    for panel in rest[len(names) :]:
        panel.set_axis_off()


def _draw_quantity(errors: "Errors", quantity: str, panel: Any, has_names: bool) -> None:
    shown = errors.table.variables[:MOST_LINES]
    label, none = LABELS[quantity]
    places = np.arange(len(shown))[::-1]
    panel.axvline(none, color=GOLD_COLOUR, lw=1.2)
    for place, one in zip(places, shown, strict=True):
        error = one.of(quantity)
        if error is None:
            continue
        panel.hlines(place, error.low, error.high, color=TARGET_COLOUR, lw=2)
        panel.plot(error.error, place, "o", color=TARGET_COLOUR, ms=4)
    names = [as_label(one.name) for one in shown] if has_names else [""] * len(shown)
    panel.set_yticks(places, names, fontsize="small")
    panel.set_ylim(-0.7, len(shown) - 0.3)
    panel.set_xlabel(label)
    few_ticks(panel.xaxis)


def _marginals(errors: "Errors") -> list[str]:
    """The worst variables that have a density to draw."""
    real = {v.name for v in errors.variables if not v.is_event and np.isfinite(v.values).all()}
    found = [one.name for one in errors.table.variables if one.name in real]
    return found[:MOST_MARGINALS]


def _draw_marginal(errors: "Errors", name: str, panel: Any) -> None:
    """Draw histograms of both weighted samples of one variable."""
    x = next(v.values for v in errors.variables if v.name == name)
    overlap = errors.overlap
    order = np.argsort(x)
    weight = np.cumsum((overlap.as_gold + overlap.as_target)[order])
    ends = np.searchsorted(weight, np.array([0.002, 0.998]) * weight[-1])
    bins = np.linspace(x[order[ends[0]]], x[order[min(ends[1], x.size - 1)]], 31)
    sides = (("gold standard", overlap.as_gold), ("target", overlap.as_target))
    for (label, weights), colour in zip(sides, (GOLD_COLOUR, TARGET_COLOUR), strict=True):
        panel.hist(x, bins, weights=weights, density=True, color=colour, alpha=0.5, label=label)
    panel.set(xlabel=as_label(name), yticks=[])
    few_ticks(panel.xaxis)
    panel.set_ylim(0, HEADROOM * panel.get_ylim()[1])  # the legend stands above the bars
    panel.legend(frameon=False, fontsize="small", ncols=2, loc="upper center")
