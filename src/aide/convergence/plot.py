"""The convergence of a chain as a picture. Data are prepared elsewhere; this file only draws."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide.convergence.text import GOOD_RHAT
from aide.reporting.figures import as_title, plain_ticks

if TYPE_CHECKING:
    from aide.convergence.curve import Convergence

BOUND, LOOSE, RHAT, ESS = "#1f6fb4", "#c8a200", "#b3392f", "#5a8f3c"
LINEAR_BELOW = 0.01
"""Nats, below which the axis is linear: the lower bound may be 0."""


def plot_convergence(curve: "Convergence", panels: np.ndarray) -> None:
    """Above: the divergence between its bounds. Below: R-hat and ESS, if there is a panel."""
    plot_bounds(panels[0], curve)
    if len(panels) > 1:
        plot_diagnostics(panels[1], curve)
    for panel in panels:
        panel.set_xscale("symlog" if 0 in curve.steps else "log")
        if 0 not in curve.steps:
            plain_ticks(panel.xaxis)
    panels[-1].set_xlabel("steps of the chain")


def plot_bounds(axis: Any, curve: "Convergence") -> None:
    """The bound from above with its 95% limit, the limit from below, and the looseness."""
    from matplotlib import ticker

    rows = curve.records()
    value, upper, lower, loose = (
        np.array([np.nan if row[name] is None else row[name] for row in rows], float)
        for name in ("value", "upper", "lower", "looseness")
    )
    known = np.where(np.isnan(lower), 0.0, lower)
    axis.fill_between(curve.steps, known, upper, color=BOUND, alpha=0.15, lw=0)
    axis.plot(curve.steps, upper, color=BOUND, lw=0.8, label="upper limit, 95%")
    axis.plot(curve.steps, value, "o-", color=BOUND, ms=3, label="AIDE: upper bound")
    if not np.isnan(lower).all():
        axis.plot(curve.steps, lower, "v-", color="0.3", ms=3, lw=0.8, label="lower limit, 95%")
    # The looseness itself is never negative, only its estimate.
    axis.plot(
        curve.steps,
        np.maximum(loose, 0.0),
        "--",
        color=LOOSE,
        lw=1.2,
        label="looseness (own)",
    )
    axis.axhline(0.0, color="0.6", lw=0.5)
    axis.set_yscale("symlog", linthresh=LINEAR_BELOW, linscale=0.5)
    axis.yaxis.set_major_locator(ticker.SymmetricalLogLocator(base=10, linthresh=LINEAR_BELOW))
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
    axis.set_ylim(bottom=-0.5 * LINEAR_BELOW)
    axis.set_ylabel("divergence (nats)")
    axis.set_title(as_title(curve.headline), fontsize="small")
    axis.legend(frameon=False, fontsize="small")


def plot_diagnostics(axis: Any, curve: "Convergence") -> None:
    """R-hat - 1 with the usual threshold, and ESS on an axis of its own."""
    axis.plot(curve.steps, np.array(curve.rhat) - 1, "o-", color=RHAT, ms=3)
    axis.axhline(GOOD_RHAT - 1, color=RHAT, lw=0.8, ls=":")
    axis.set_yscale("log")
    axis.set_ylabel("R-hat − 1", color=RHAT)
    other = axis.twinx()
    other.plot(curve.steps, curve.ess, "s-", color=ESS, ms=3)
    other.set_yscale("log")
    plain_ticks(other.yaxis)
    other.set_ylabel(f"bulk ESS, {curve.num_chains} chains", color=ESS)
