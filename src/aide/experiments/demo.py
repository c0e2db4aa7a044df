"""The demonstration: how few particles can a filter of the Nile's flow get away with?"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import jax

from aide._core.files import write_atomically
from aide.algorithms.particle_filter import ParticleFilter
from aide.draws.draw_many import draw_each
from aide.estimation.interval import unseen_share
from aide.estimation.report import show
from aide.estimation.summary import Estimate, Mean
from aide.problems.linear_gaussian import nile

PARTICLES = (10, 30, 100, 300)
NUM_RUNS = 200
NUM_META = 10
GOOD_ENOUGH = 0.5

INTRODUCTION = (
    "[bold]100 years of the Nile's flow[/], a river level seen through noise. Two particle filters "
    "guess the whole path of the level; a Kalman smoother knows its exact posterior. AIDE bounds, "
    "in nats, how far each filter's output is from that posterior: 0 is perfect, "
    f"{GOOD_ENOUGH} good enough for most purposes. {NUM_RUNS} runs each way, {NUM_META} "
    "meta-inference runs per output; the looseness says how much they add at the filter's own "
    "outputs.\n"
)
READING = (
    "P off by: any probability computed from the filter's output differs from the gold standard's, "
    "here the exact posterior's, by at most this (95%). "
    f"Within {GOOD_ENOUGH}: the divergence is, {unseen_share(NUM_RUNS, 0.95):.1%} of the runs left "
    "out (95%).\n"
)


class Row(NamedTuple):
    """One filter, measured."""

    proposal: str
    num_particles: int
    estimate: Estimate


def measure_filters(seed: int) -> Iterator[Row]:
    """Measure both proposals at every number of particles, sharing the exact posterior's runs."""
    model = nile()
    states = model.state_space()
    settings: dict[str, tuple[str, int]] = {}
    filters: dict[str, ParticleFilter] = {}
    for proposal, given in (("bootstrap", None), ("optimal", model.optimal_proposal())):
        for num in PARTICLES:
            label = f"{proposal} filter, {num} particles"
            settings[label] = (proposal, num)
            filters[label] = ParticleFilter(states, num, given, label=label)
    measured = draw_each(
        jax.random.key(seed),
        model.posterior(),
        filters,
        num_gold=NUM_RUNS,
        num_target=NUM_RUNS,
        num_meta_target=NUM_META,
        keep_values=True,
    )
    for label, draws in measured:
        proposal, num = settings[label]
        yield Row(proposal, num, Estimate(draws))


def demo_table(rows: list[Row]) -> Any:
    """The results as a rich table."""
    from rich.table import Table

    table = Table()
    table.add_column("proposal")
    table.add_column("particles", justify="right")
    table.add_column("divergence ≤", justify="right", no_wrap=True)
    table.add_column("looseness (own outputs)", justify="right")
    table.add_column("P off by ≤ (95%)", justify="right")
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        estimate = row.estimate
        high = estimate.interval()[1]
        looseness = estimate.looseness.target
        good = high < GOOD_ENOUGH
        table.add_row(
            row.proposal,
            str(row.num_particles),
            show(Mean(estimate.value, estimate.std_error)),
            "" if looseness is None else f"{max(looseness.value, 0.0):.2g}",
            f"{estimate.total_variation():.2f}",
            f"[green]within {GOOD_ENOUGH}[/]" if good else "too coarse",
        )
    return table


def demo_figure(rows: list[Row]) -> Any:
    """Divergence against the number of particles, one curve per proposal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for name, colour in (("bootstrap", "#c0392b"), ("optimal", "#1f6fb4")):
        chosen = [row for row in rows if row.proposal == name]
        axis.errorbar(
            [row.num_particles for row in chosen],
            [row.estimate.value for row in chosen],
            [2 * row.estimate.std_error for row in chosen],
            fmt="o-",
            color=colour,
            capsize=3,
            label=f"{name} proposal",
        )
    axis.axhline(GOOD_ENOUGH, color="grey", ls="--", lw=1, label=f"good enough: {GOOD_ENOUGH} nats")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="particles",
        ylabel="divergence from the exact posterior (nats)",
        title="Particle filters on the Nile data, measured by AIDE",
    )
    axis.legend(frameon=False)
    return figure


def run_demo(out: Path, seed: int) -> None:
    """Measure, print the table, write the figure into the folder `out`."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    console.print(INTRODUCTION)
    rows: list[Row] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring 8 filters", total=2 * len(PARTICLES))
        for row in measure_filters(seed):
            rows.append(row)
            progress.advance(task)
    console.print(demo_table(rows))
    path, image = out / "nile-filters.png", BytesIO()
    demo_figure(rows).savefig(image, format="png", dpi=150)
    write_atomically(path, image.getvalue())
    console.print(READING)
    console.print("The last filter in full:", style="bold")
    console.print(str(rows[-1].estimate), highlight=False, soft_wrap=True)
    console.print(f"\nFigure: {path}", highlight=False, soft_wrap=True)
