"""Plots of an estimate. Data are prepared elsewhere; this file only draws."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.roles import GOLD, TARGET, Role
from aide.estimation.meta_curve import meta_curve_of
from aide.estimation.sandwich.sandwich import is_closed_form
from aide.reporting.figures import plot_limits

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

COLOURS = {GOLD: "#c8a200", TARGET: "#1f6fb4"}


def plot_meta_curve(axis: Any, estimate: "Estimate") -> Any:
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
    return axis


def plot_terms(axis: Any, estimate: "Estimate") -> Any:
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
    return axis


def plot_directions(axis: Any, estimate: "Estimate") -> Any:
    """What the target misses and what it invents, with one standard error.

    Without both log Z only their sum is a divergence, and is drawn.
    """
    directions = {"misses": estimate.gold_to_target, "invents": estimate.target_to_gold}
    bars = {name: (one.value, one.std_error) for name, one in directions.items()}
    if not estimate.gold_to_target.is_kl_bound:
        bars = {}
    bars["both"] = estimate.value, estimate.std_error
    names = [name for name, (value, _) in bars.items() if np.isfinite(value)]
    place = np.arange(len(names))[::-1]
    values, errors = ([bars[name][k] for name in names] for k in (0, 1))
    axis.barh(place, values, xerr=errors, color=COLOURS[TARGET], alpha=0.6, height=0.5)
    axis.axvline(0.0, color="grey", lw=0.8)
    axis.set_yticks(place, names)
    axis.set_xlabel("upper bound (nats)")
    return axis


def plot_sandwich(axis: Any, estimate: "Estimate", tolerance: float) -> Any:
    """Both limits of the divergence at 95% beside the tolerance."""
    found = estimate.judge(tolerance)
    plot_limits(axis, ["divergence"], [(found.lower, found.upper)], [np.nan], tolerance)
    axis.set_xlabel("nats, 95%")
    return axis
