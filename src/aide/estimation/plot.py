"""Plots of an estimate. The numbers are computed in other files of this folder."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.estimation.looseness import meta_curve_of
from aide.estimation.sandwich.sandwich import is_closed_form
from aide.reporting.figures import few_ticks, plain_ticks, plot_limits

if TYPE_CHECKING:
    from aide.estimation.summary import Estimate

Picture = Callable[[Any, "Estimate"], Any]
"""A function that draws an estimate into matplotlib axes and returns them."""
COLOURS = {GOLD: "#c8a200", TARGET: "#1f6fb4"}
"""Colours of what belongs to the gold standard and to the target."""


def plot_meta_curve(axis: Any, estimate: "Estimate") -> Any:
    """The bound for every smaller M of either algorithm, with one standard error; the sandwich.

    Args:
        axis: The matplotlib axes to draw into.
        estimate: What `aide.estimate` returned.

    Returns:
        The axes, with the curves drawn.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> from aide import plots
        >>> from matplotlib.figure import Figure
        >>> axis = plots.plot_meta_curve(Figure().subplots(), estimate)
    """
    for role, colour in COLOURS.items():
        curve = meta_curve_of(estimate.draws, role)
        if len(curve.num_meta) > 1:
            axis.plot(curve.num_meta, curve.value, color=colour, label=f"M of the {role.word}")
            error = np.where(np.isfinite(curve.value), curve.std_error, 0.0)
            low, high = curve.value - error, curve.value + error
            axis.fill_between(curve.num_meta, low, high, color=colour, alpha=0.25, lw=0)
            axis.set_xscale("log")
            plain_ticks(axis.xaxis)
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
    axis.set(xlabel="meta-inference runs M", ylabel="bound on the divergence (nats)")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize="small")
    return axis


def plot_terms(axis: Any, estimate: "Estimate") -> Any:
    r"""Histograms of the log ratio of the densities, gold over target, at the outputs of either.

    The divergence is the distance between their means, whatever $Z$ is; where a $\log Z$ is
    unknown the ratios are shown less the middle between the two means.

    Args:
        axis: The matplotlib axes to draw into.
        estimate: What `aide.estimate` returned.

    Returns:
        The axes, with the histograms drawn.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> from aide import plots
        >>> from matplotlib.figure import Figure
        >>> axis = plots.plot_terms(Figure().subplots(), estimate)
    """
    ratios = {GOLD: estimate.terms.gold, TARGET: -estimate.terms.target}
    finite = {role: terms[np.isfinite(terms)] for role, terms in ratios.items()}
    known = estimate.gold_to_target.is_kl_bound
    means = [float(terms.mean()) for terms in finite.values() if terms.size]
    shift = 0.0 if known or not means else float(np.mean(means))
    both = np.concatenate(list(finite.values())) - shift
    spread = np.ptp(both) if both.size else 0.0
    is_spread = spread > 1e-9 * max(1.0, np.abs(both).max(initial=0.0))
    bins = np.histogram_bin_edges(both, 40) if is_spread else 1
    for role, terms in finite.items():
        colour = COLOURS[role]
        axis.hist(terms - shift, bins=bins, color=colour, alpha=0.5, label=f"{role.word} outputs")
        if terms.size:
            axis.axvline(float(terms.mean()) - shift, color=colour, lw=1.5)
    centred = "" if known else ", centred"
    axis.set(xlabel=f"log ratio gold/target (nats{centred})", ylabel="runs")
    lost = sum(int(np.isinf(terms).sum()) for terms in ratios.values())
    title = f"{lost} infinite ratios are not shown" if lost else "distance of the means: estimate"
    axis.set_title(title, fontsize="small")
    few_ticks(axis.xaxis)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize="small")
    return axis


def plot_directions(axis: Any, estimate: "Estimate") -> Any:
    """What the target misses and what it invents, with one standard error each, and their sum.

    If a log Z is unknown, only the sum is a divergence, and only the sum is drawn.

    Args:
        axis: The matplotlib axes to draw into.
        estimate: What `aide.estimate` returned.

    Returns:
        The axes, with both directions and their sum drawn.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> from aide import plots
        >>> from matplotlib.figure import Figure
        >>> axis = plots.plot_directions(Figure().subplots(), estimate)
    """
    directions = {"misses": estimate.gold_to_target, "invents": estimate.target_to_gold}
    bars = {name: (one.value, one.std_error) for name, one in directions.items()}
    if not estimate.gold_to_target.is_kl_bound:
        bars = {}
    bars["sum"] = estimate.value, estimate.std_error
    names = [name for name, (value, _) in bars.items() if np.isfinite(value)]
    place = np.arange(len(names))[::-1]
    values, errors = ([bars[name][k] for name in names] for k in (0, 1))
    axis.barh(place, values, xerr=errors, color=COLOURS[TARGET], alpha=0.6, height=0.5)
    axis.axvline(0.0, color="grey", lw=0.8)
    axis.set_yticks(place, names)
    _draw_limits(axis, estimate)
    few_ticks(axis.xaxis)
    axis.set_xlabel("bound on the divergence (nats)")
    return axis


def _draw_limits(axis: Any, estimate: "Estimate") -> None:
    """The sandwich below the bar of the sum, where it is a formula."""
    if not is_closed_form(estimate.draws):  # a picture trains no classifier
        return
    found = estimate.sandwich()
    if np.isfinite(found.upper):
        axis.hlines(-0.4, *found.limits, color="0.3", lw=2, label="sandwich, 95%")
        axis.legend(frameon=False, fontsize="small")


def plot_sandwich(axis: Any, estimate: "Estimate", tolerance: float) -> Any:
    """Both limits of the divergence at 95% beside the tolerance.

    Args:
        axis: The matplotlib axes to draw into.
        estimate: What `aide.estimate` returned.
        tolerance: The largest divergence in nats that is good enough; a dashed line.

    Returns:
        The axes, with both limits drawn.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, num_gold=100, num_target=100)
        >>> from aide import plots
        >>> from matplotlib.figure import Figure
        >>> axis = plots.plot_sandwich(Figure().subplots(), estimate, 0.5)
    """
    found = cast(Any, estimate.judge(tolerance))  # a tolerance in nats gives both limits
    plot_limits(axis, ["divergence"], [(found.lower, found.upper)], [np.nan], tolerance)
    axis.set_xlabel("nats, 95%")
    return axis


def pictures_of(estimate: "Estimate") -> tuple[Picture, ...]:
    """The plots that show something: a curve needs two M, and log ratios must be finite."""
    found: list[Picture] = []
    if max(side.num_meta for side in estimate.draws.sides) > 1:
        found.append(plot_meta_curve)
    if np.isfinite(estimate.value) and estimate.gold_to_target.is_kl_bound:
        found.append(plot_directions)
    if any(np.isfinite(estimate.terms.at(role)).any() for role in Role) or not found:
        found.append(plot_terms)
    return tuple(found)
