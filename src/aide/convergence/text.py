"""The convergence of a chain as a table and in sentences."""

from typing import TYPE_CHECKING, Any

import numpy as np

from aide._core.text import plain

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


def convergence_text(curve: "Convergence") -> str:
    """The table, then the sentences."""
    width = {name: max(len(title), 7) for name, (title, _) in COLUMNS.items()}
    lines = ["  ".join(title.rjust(width[name]) for name, (title, _) in COLUMNS.items())]
    for row in curve.rows():
        cells = (_cell(row[name], form).rjust(width[name]) for name, (_, form) in COLUMNS.items())
        lines.append("  ".join(cells))
    return "\n".join([*lines, *sentences(curve)])


def sentences(curve: "Convergence") -> list[str]:
    """What the numbers say, in words."""
    found = _about_divergence(curve)
    if curve.num_chains and not np.isnan(curve.rhat[-1]):
        found.append(_about_rhat(curve))
    found.append(_about_the_unseen(curve))
    found.extend(plain(text) for text in curve.cautions)
    if curve.note:
        found.append(f"No lower bounds: {curve.note}")
    warned = [n for n, e in zip(curve.steps, curve.estimates, strict=True) if e.warnings]
    if warned:
        listed = ", ".join(str(number) for number in warned)
        found.append(f"Notes on the estimates at {listed} steps: see estimates[i].warnings.")
    return found


def headline(curve: "Convergence") -> str:
    """The shortest statement about the smallest distance that was reached."""
    return _about_divergence(curve)[-1].split(CONTRAST)[0].rstrip(".")


def _about_divergence(curve: "Convergence") -> list[str]:
    whom = plain(curve.estimates[-1].draws.names[0])
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
    draws = curve.estimates[-1].draws
    fewest = min(draws.gold.num_runs, draws.target.num_runs)
    return (
        f"Late or stuck chains: {fewest} runs may miss up to {curve.left_out():.1%} of them, which "
        "could add any number of nats; more runs show more."
    )


def _still_away(curve: "Convergence") -> str:
    last = curve.rows()[-1]
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


def _cell(value: Any, form: str) -> str:
    return "–" if value is None or np.isnan(value) else format(value, form)
