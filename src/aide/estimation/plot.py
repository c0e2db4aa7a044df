"""Plots of an estimate. Data are prepared elsewhere; this file only draws."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.roles import GOLD, TARGET, Role
from aide.estimation.meta_curve import meta_curve_of
from aide.estimation.sandwich.sandwich import is_closed_form

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

COLOURS = {GOLD: "#c8a200", TARGET: "#1f6fb4"}


def plot_meta_curve(axis: Any, estimate: "Estimate") -> None:
    """The bound for every smaller M of either algorithm, with one standard error; the sandwich."""
    for role, colour in COLOURS.items():
        curve = meta_curve_of(estimate.draws, role)
        if len(curve.num_meta) > 1:
            axis.plot(curve.num_meta, curve.value, color=colour, label=f"M of the {role.word}")
            error = np.where(np.isfinite(curve.value), curve.std_error, 0.0)
            low, high = curve.value - error, curve.value + error
            axis.fill_between(curve.num_meta, low, high, color=colour, alpha=0.25, lw=0)
            axis.set_xscale("log")
    if np.isfinite(estimate.std_error):
        axis.errorbar(
            [max(side.num_meta for side in estimate.draws.sides)],
            [estimate.value],
            [estimate.std_error],
            fmt="o",
            color="black",
            label="estimate",
        )
    if is_closed_form(estimate.draws):  # a picture trains no classifier
        found = estimate.sandwich()
        if np.isfinite(found.upper):
            axis.axhspan(*found.limits, color="grey", alpha=0.2, lw=0, label="sandwich, 95%")
    axis.axhline(0.0, color="grey", lw=0.8)
    axis.set(xlabel="meta-inference runs M", ylabel="upper bound on the divergence (nats)")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False)


def plot_terms(axis: Any, estimate: "Estimate") -> None:
    """Histograms of the terms whose means add up to the estimate."""
    for role in Role:
        terms, colour, label = estimate.terms.at(role), COLOURS[role], f"at {role.word} outputs"
        finite = terms[np.isfinite(terms)]
        spread = np.ptp(finite) if finite.size else 0.0
        bins = 40 if spread > 1e-9 * max(1.0, np.abs(finite).max(initial=0.0)) else 1
        axis.hist(finite, bins=bins, color=colour, alpha=0.5, label=label)
    axis.set(xlabel="log ratio (nats)", ylabel="runs")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False)
