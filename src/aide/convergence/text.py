"""The convergence of a chain as a table and in sentences."""

from typing import TYPE_CHECKING

import numpy as np

from aide.reporting.grid import Grid
from aide.reporting.numbers import cell

if TYPE_CHECKING:
    from aide.convergence.curve import Convergence

NATS = (1.0, 0.1, 0.05, 0.01)
"""Distances about which there is a sentence."""
GOOD_RHAT = 1.01
"""Below it, R-hat is usually taken to say that chains have converged."""
CONTRAST = "; "

COLUMNS = {
    "steps": ("steps", "d"),
    "value": ("bound", ".3f"),
    "std_error": ("±", ".3f"),
    "upper": ("at most", ".3f"),
    "lower": ("at least", ".3f"),
    "looseness": ("looseness", "z.3f"),
    "total_variation": ("total variation", ".3f"),
    "rhat": ("R-hat", ".3f"),
    "ess": ("ESS", ".0f"),
}


def grid_of(curve: "Convergence") -> Grid:
    """The numbers of every length."""
    lines = tuple(
        tuple(cell(record[name], form) for name, (_, form) in COLUMNS.items())
        for record in curve.records()
    )
    titles = tuple(title for title, _ in COLUMNS.values())
    return Grid(titles, lines, ("",) * len(lines), optional=("±", "ESS", "looseness"))


def curve_headline(curve: "Convergence") -> str:
    """The shortest statement about the smallest distance that was reached."""
    return _about_divergence(curve)[-1].split(CONTRAST)[0].rstrip(".")


def curve_rows(curve: "Convergence") -> list[tuple[str, str]]:
    """What the numbers say, in words."""
    found = [("distance", text) for text in _about_divergence(curve)]
    if curve.num_chains and not np.isnan(curve.rhat[-1]):
        found.append(("R-hat", _about_rhat(curve)))
    return [*found, ("unseen", _about_the_unseen(curve))]


def notes_of(curve: "Convergence") -> tuple[str, ...]:
    """What pilots said, why limits are missing, and which estimates have notes of their own."""
    found = list(curve.pilots)
    if curve.lacks:
        found.append(f"No lower bounds: {curve.lacks}")
    noted = [n for n, e in zip(curve.steps, curve.estimates, strict=True) if e.notes]
    if noted:
        listed = ", ".join(str(number) for number in noted)
        found.append(f"There are notes on the estimates at {listed} steps: see estimates[i].notes.")
    return tuple(found)


def _about_divergence(curve: "Convergence") -> list[str]:
    whom = curve.estimates[-1].draws.gold.name
    # A later, smaller distance with the same number of steps says more: it replaces the earlier.
    reached = [(curve.steps_within(nats), nats) for nats in NATS]
    nearest = {steps: nats for steps, nats in reached if steps is not None}
    found = []
    for steps, nats in nearest.items():
        text = (
            f"At {_lengths(steps, curve.steps[-1])}, this chain is within {nats:g} nats of the "
            f"gold standard ({whom}), {curve.left_out():.1%} of the runs left out (95%)"
        )
        beyond = curve.steps_beyond(nats)
        contrast = "" if beyond is None else f"{CONTRAST}up to {beyond} steps it is not (95%)"
        found.append(f"{text}{contrast}.")
    return found or [_still_away(curve)]


def _lengths(first: int, last: int) -> str:
    return (
        f"{last} steps" if first == last else f"the lengths measured from {first} to {last} steps"
    )


def _about_the_unseen(curve: "Convergence") -> str:
    fewest = min(side.num_runs for side in curve.estimates[-1].draws.sides)
    return (
        f"Late or stuck chains: {fewest} runs may miss up to {curve.left_out():.1%} of them, which "
        "could add any number of nats; more runs show more."
    )


def _still_away(curve: "Convergence") -> str:
    last = curve.records()[-1]
    text = (
        f"After {last['steps']} steps the bound is still {last['value']:.2g} nats (at most "
        f"{last['upper']:.2g} at 95%)"
    )
    if not last["lower"] > 0:
        return f"{text}."
    return f"{text}, and the chain is at least {last['lower']:.2g} nats away (95%)."


def _about_rhat(curve: "Convergence") -> str:
    first = len(curve.rhat)
    while first and curve.rhat[first - 1] < GOOD_RHAT:
        first -= 1
    chains = f"R-hat of {curve.num_chains} chains"
    if first == len(curve.rhat):
        return f"{chains} is still {curve.rhat[-1]:.3f} after {curve.steps[-1]} steps."
    return f"{chains} stays below {GOOD_RHAT:g} from {curve.steps[first]} steps on."
