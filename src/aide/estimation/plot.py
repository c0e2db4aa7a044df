"""Plots of an estimate. Data are prepared elsewhere; this file only draws."""

from typing import Any

import numpy as np

from aide.estimation.report import shows_sandwich
from aide.estimation.summary import Estimate

GOLD_COLOUR, TARGET_COLOUR = "#c8a200", "#1f6fb4"


def plot_estimate(estimate: Estimate, axes: Any = None) -> Any:
    """Left: the bound against M. Right: the distribution of its terms. Returns the figure.

    Args:
        estimate: What to draw.
        axes: Two matplotlib axes to draw into; a new figure without `pyplot` state if `None`.
    """
    if axes is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.4), layout="constrained")
        axes = figure.subplots(1, 2)
    plot_meta_curve(axes[0], estimate)
    plot_terms(axes[1], estimate)
    return axes[0].figure


def plot_meta_curve(axis: Any, estimate: Estimate) -> None:
    """The bound for every smaller M of either algorithm, with one standard error; the sandwich."""
    for role, colour in (("gold", GOLD_COLOUR), ("target", TARGET_COLOUR)):
        curve = estimate.meta_curve(role)
        if len(curve.num_meta) > 1:
            axis.plot(curve.num_meta, curve.value, color=colour, label=f"M of the {role}")
            error = np.where(np.isfinite(curve.value), curve.std_error, 0.0)
            low, high = curve.value - error, curve.value + error
            axis.fill_between(curve.num_meta, low, high, color=colour, alpha=0.25, lw=0)
            axis.set_xscale("log")
    if np.isfinite(estimate.std_error):
        axis.errorbar(
            [max(estimate.draws.num_meta_gold, estimate.draws.num_meta_target)],
            [estimate.value],
            [estimate.std_error],
            fmt="o",
            color="black",
            label="estimate",
        )
    if shows_sandwich(estimate):
        low, high = estimate.sandwich()[:2]
        if np.isfinite(high):
            axis.axhspan(low, high, color="grey", alpha=0.2, lw=0, label="sandwich, 95%")
    axis.axhline(0.0, color="grey", lw=0.8)
    axis.set(xlabel="meta-inference runs M", ylabel="upper bound on the divergence (nats)")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False)


def plot_terms(axis: Any, estimate: Estimate) -> None:
    """Histograms of the terms whose means add up to the estimate."""
    for terms, colour, label in (
        (estimate.gold_terms, GOLD_COLOUR, "at gold outputs"),
        (estimate.target_terms, TARGET_COLOUR, "at target outputs"),
    ):
        finite = terms[np.isfinite(terms)]
        spread = np.ptp(finite) if finite.size else 0.0
        bins = 40 if spread > 1e-9 * max(1.0, np.abs(finite).max(initial=0.0)) else 1
        axis.hist(finite, bins=bins, color=colour, alpha=0.5, label=label)
    axis.set(xlabel="log ratio (nats)", ylabel="runs")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False)
