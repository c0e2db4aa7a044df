"""The convergence of a chain as a table, in sentences and as a picture."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide.reporting.figures import as_title, plain_ticks
from aide.reporting.grid import Grid
from aide.reporting.numbers import cell, in_nats

if TYPE_CHECKING:
    from aide.convergence.convergence import Convergence


NATS = (1.0, 0.1, 0.05, 0.01)
"""Divergences in nats about which there may be a sentence."""
GOOD_RHAT = 1.01
"""R-hat below which chains usually count as converged (Vehtari et al. 2021)."""

COLUMNS = {
    "steps": ("steps", "d"),
    "value": ("bound", ".3f"),
    "std_error": ("±", ".3f"),
    "upper": ("at most", ".3f"),
    "lower": ("at least", ".3f"),
    "looseness": ("looseness", "z.3f"),
    "total_variation": ("any probability off by at most", ".3f"),
    "rhat": ("R-hat", ".3f"),
    "ess": ("ESS", ".0f"),
}


def grid_of(curve: "Convergence") -> Grid:
    """The table of all numbers of steps."""
    lines = tuple(
        tuple(cell(record[name], form) for name, (_, form) in COLUMNS.items())
        for record in curve.records()
    )
    titles = tuple(title for title, _ in COLUMNS.values())
    return Grid(titles, lines, ("",) * len(lines), optional=("ESS", "looseness", "±"))


def curve_headline(curve: "Convergence") -> str:
    """The sentence about the smallest divergence that was reached."""
    return _about_divergence(curve)[-1][0]


def curve_rows(curve: "Convergence") -> list[tuple[str, str]]:
    """The meaning of the numbers, in words."""
    found = [("distance", " ".join(parts)) for parts in _about_divergence(curve)]
    if curve.num_chains and not np.isnan(curve.rhat[-1]):
        found.append(("R-hat", _about_rhat(curve)))
    return [*found, ("unseen", _about_the_unseen(curve))]


def notes_of(curve: "Convergence") -> tuple[str, ...]:
    """Notes on pilots, on missing limits, and of the estimates."""
    found = list(curve.pilots)
    if curve.lacks:
        found.append(f"No lower bounds: {curve.lacks}")
    at = dict(zip(curve.steps, (one.notes for one in curve.estimates), strict=True))
    texts = dict.fromkeys(note for notes in at.values() for note in notes)
    for text in texts:
        steps = [f"{num:,}" for num, notes in at.items() if text in notes]
        noun = "step" if steps == ["1"] else "steps"
        found.append(f"After {', '.join(steps)} {noun}: {text}")
    return tuple(found)


def _about_divergence(curve: "Convergence") -> list[list[str]]:
    """Sentences about every divergence that was reached, the smallest last."""
    whom = curve.estimates[-1].draws.gold.name
    # A smaller divergence at the same number of steps replaces a larger one.
    reached = [(curve.steps_within(nats), nats) for nats in NATS]
    nearest = {steps: nats for steps, nats in reached if steps is not None}
    found = []
    for steps, nats in nearest.items():
        parts = [
            f"With 95% confidence the divergence of this chain from {whom} is below "
            f"{in_nats(nats)} at {_lengths(steps, curve.steps[-1])}."
        ]
        beyond = curve.steps_beyond(nats)
        if beyond is not None:
            parts.append(f"With 95% confidence it is above {in_nats(nats)} up to {_steps(beyond)}.")
        found.append(parts)
    return found or [[_still_away(curve)]]


def _steps(num: int) -> str:
    return f"{num:,} step{'s' if num != 1 else ''}"


def _lengths(first: int, last: int) -> str:
    return (
        _steps(last) if first == last else f"every length measured from {first:,} to {last:,} steps"
    )


def _about_the_unseen(curve: "Convergence") -> str:
    fewest = min(side.num_runs for side in curve.estimates[-1].draws.sides)
    return (
        f"The divergences do not count regions of less than {curve.left_out():.1%} probability, "
        f"which {fewest:,} runs cannot rule out: late or stuck chains as rare as that could add "
        "any number of nats."
    )


def _still_away(curve: "Convergence") -> str:
    last = curve.records()[-1]
    text = (
        f"After {last['steps']:,} steps the bound is still {in_nats(last['value'], 2)} (95% upper "
        f"limit {last['upper']:.2g})"
    )
    if not last["lower"] > 0:
        return f"{text}."
    return f"{text}; with 95% confidence the divergence is above {in_nats(last['lower'], 2)}."


def _about_rhat(curve: "Convergence") -> str:
    first = len(curve.rhat)
    while first and curve.rhat[first - 1] < GOOD_RHAT:
        first -= 1
    chains = f"R-hat of {curve.num_chains} chains"
    if first == len(curve.rhat):
        return f"{chains} is still {curve.rhat[-1]:.3f} after {curve.steps[-1]:,} steps."
    return f"{chains} stays below {GOOD_RHAT:g} from {curve.steps[first]:,} steps on."


BOUND, LOOSE, RHAT, ESS = "#1f6fb4", "#c8a200", "#b3392f", "#5a8f3c"
LINEAR_BELOW = 0.01
"""Nats below which the axis is linear, since the lower bound may be 0."""


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
    # The looseness is never negative, unlike its estimate.
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
