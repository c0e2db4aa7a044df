"""Figures of the card, each on given matplotlib axes, in the colours of these axes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from aide.reporting.figures import as_label

Row = Mapping[str, Any]
LEAST_NATS, MOST_NATS = 1e-2, 1e2
"""Ends of the scale of colours, in nats."""
MARKERS = "osv^D*P"


def number(value: Any) -> float:
    """Return a number that JSON may have kept as the text `inf`, `-inf` or `nan`."""
    return float("nan") if value is None else float(value)


def plot_heat(axis: Any, rows: Sequence[Row], order: Sequence[str]) -> None:
    """Draw log10 of the divergence for each posterior and algorithm; a cross has no number."""
    posteriors = sorted({row["posterior"] for row in rows})
    algorithms = _present(rows, order)
    heat = np.full((len(posteriors), len(algorithms)), np.nan)
    for row in rows:
        place = posteriors.index(row["posterior"]), algorithms.index(row["algorithm"])
        if "reason" in row:
            axis.plot(place[1], place[0], "x", color="tab:red", ms=4)
        else:
            heat[place] = np.log10(np.clip(number(row["value"]), LEAST_NATS / 10, MOST_NATS * 10))
    ends = np.log10((LEAST_NATS, MOST_NATS))
    image = axis.imshow(heat, aspect="auto", cmap="viridis_r", vmin=ends[0], vmax=ends[1])
    axis.set_yticks(range(len(posteriors)), posteriors, fontsize=7)
    labels = [as_label(name, 9) for name in algorithms]
    axis.set_xticks(range(len(algorithms)), labels, fontsize=6)
    bar = axis.figure.colorbar(image, ax=axis, extend="both", shrink=0.6)
    ticks = np.arange(ends[0], ends[1] + 1)
    bar.set_ticks(ticks, labels=[f"{10.0**tick:g}" for tick in ticks])
    bar.set_label("nats")


def plot_costs(axis: Any, rows: Sequence[Row], order: Sequence[str]) -> None:
    """Draw nats against gradients, one colour for each algorithm that tells their number."""
    known = [row for row in rows if row.get("num_gradients") is not None]
    for marker, (name, chosen) in zip(MARKERS, _by_algorithm(known, order), strict=False):
        gradients = [number(row["num_gradients"]) for row in chosen]
        nats = np.clip([number(row["value"]) for row in chosen], 1e-3, 1e5)
        axis.plot(gradients, nats, marker, ms=4, alpha=0.7, label=name)
    axis.set(xscale="log", yscale="log", ylabel="nats (drawn between 0.001 and 100,000)")
    axis.set_xlabel("gradients of the fit, or of one run of a sampler")
    axis.legend(frameon=False, fontsize=7)


def plot_k_hats(axis: Any, rows: Sequence[Row], order: Sequence[str], most: float) -> None:
    """Draw the largest error of a mean against k-hat; the line is where k-hat begins to warn."""
    known = [row for row in rows if row.get("k_hat") is not None]
    for marker, (name, chosen) in zip(MARKERS, _by_algorithm(known, order), strict=False):
        k_hats = np.clip([number(row["k_hat"]) for row in chosen], -0.5, 2.0)
        errors = np.clip([abs(number(row.get("worst_mean"))) for row in chosen], 1e-3, 1e3)
        axis.plot(k_hats, errors, marker, ms=4, alpha=0.7, label=name)
    axis.axvline(most, ls=":", color="tab:red", lw=1)
    axis.set(yscale="log", xlabel="k-hat (drawn between -0.5 and 2)")
    axis.set_ylabel("largest error of a mean (sd)")
    axis.legend(frameon=False, fontsize=7)


def plot_gold_standards(
    axis: Any, rows: Sequence[Row], flagged: Collection[str], agree: float
) -> None:
    """Draw limits of the divergence of made gold standards; red is flagged by its own words."""
    ordered = sorted(rows, key=lambda row: number(row["value"]))
    for place, row in enumerate(ordered):
        low, value, high = (number(row[name]) for name in ("low", "value", "high"))
        colour = "tab:red" if row["posterior"] in flagged else "tab:blue"
        axis.plot([low, high], [place, place], "-", color=colour, lw=1)
        axis.plot(value, place, "o", color=colour, ms=3)
    axis.axvline(agree, ls=":", color="tab:red", lw=1)
    axis.set_xscale("symlog", linthresh=agree)
    axis.set_yticks(range(len(ordered)), [row["posterior"] for row in ordered], fontsize=7)
    axis.set_xlabel("divergence from the reference draws (nats, 95%)")


def _present(rows: Sequence[Row], order: Sequence[str]) -> list[str]:
    names = {row["algorithm"] for row in rows}
    return [name for name in order if name in names] + sorted(names - set(order))


def _by_algorithm(rows: Sequence[Row], order: Sequence[str]) -> list[tuple[str, list[Row]]]:
    return [
        (name, [row for row in rows if row["algorithm"] == name]) for name in _present(rows, order)
    ]
