"""The demonstration: the least number of particles for a filter of the Nile's flow."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import jax

from aide._core.process import write_atomically
from aide.algorithms.particle_filter import ParticleFilter
from aide.comparing.compare import compare
from aide.comparing.comparison import Comparison
from aide.problems.linear_gaussian import LocalLevelModel, nile
from aide.reporting.figures import plain_ticks
from aide.reporting.page import Page

PARTICLES = (10, 100, 300)
"""Numbers of particles of the filters."""
PROPOSALS = {"bootstrap": "#c0392b", "optimal": "#1f6fb4"}
"""Proposals of the filters, and the colours of their curves."""
NUM_RUNS = 200
"""Runs of the smoother and of each filter, for a demonstration of a minute."""
NUM_META = 10
"""Meta-inference runs per output, for a demonstration of a minute."""
WIDE = 100
"""Columns of the text in the file."""
GOOD_ENOUGH = 0.5
"""Divergence in nats that counts as good enough, in the table and as a line of the figure."""

INTRODUCTION = (
    "[bold]How few particles are enough?[/] 100 years of the Nile's flow are a river level seen "
    "through noise. Particle filters with two proposals estimate the path of the level; "
    "'optimal, 100' has the optimal proposal and 100 particles. A Kalman smoother knows the exact "
    "posterior: it is the gold standard. AIDE bounds the divergence of each filter from that "
    f"posterior, in nats. 0 nats is perfect; below {GOOD_ENOUGH} nats a filter passes here.\n"
)
EXPLAINED = ("errors", "passed", "failed", "undecided")
"""Rows of the comparison that are printed below the table; the file has all rows."""
NEXT = (
    "Next: aide.estimate(key, gold, target) does this for an algorithm of yours, and "
    "aide.compare(key, gold, targets) for several. README.md begins with one."
)


def filters(model: LocalLevelModel) -> dict[str, ParticleFilter]:
    """Both proposals at every number of particles."""
    states, proposals = model.state_space(), (None, model.optimal_proposal())
    return {
        _name(title, num): ParticleFilter(states, num, proposal, label=f"{title} filter, {num}")
        for title, proposal in zip(PROPOSALS, proposals, strict=True)
        for num in PARTICLES
    }


def _name(proposal: str, num_particles: int) -> str:
    return f"{proposal}, {num_particles}"


def measure_filters(seed: int) -> Comparison:
    """Measure all filters against the exact posterior, whose runs they share."""
    model = nile()
    return compare(
        jax.random.key(seed),
        model.posterior(),
        filters(model),
        tolerance=GOOD_ENOUGH,
        max_meta=NUM_META,  # M is not raised, so that the demonstration ends within a minute
        num_gold=NUM_RUNS,
        num_target=NUM_RUNS,
        num_meta_target=NUM_META,
    )


def demo_figure(found: Comparison) -> Any:
    """Divergence against the number of particles, one curve per proposal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for name, colour in PROPOSALS.items():
        chosen = [found[_name(name, num)] for num in PARTICLES]
        axis.errorbar(
            PARTICLES,
            [estimate.value for estimate in chosen],
            [2 * estimate.std_error for estimate in chosen],
            fmt="o-",
            color=colour,
            capsize=3,
            label=f"{name} proposal",
        )
    axis.axhline(GOOD_ENOUGH, color="grey", ls="--", lw=1, label=f"tolerance: {GOOD_ENOUGH} nats")
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="particles",
        ylabel="divergence from the exact posterior (nats)",
        title="Particle filters on the Nile data, measured by AIDE",
    )
    plain_ticks(axis.xaxis)
    plain_ticks(axis.yaxis)
    axis.legend(frameon=False)
    return figure


def shown(found: Comparison) -> Page:
    """The table, with the rows that explain it."""
    page = found.__rich__()
    return replace(page, rows=tuple(row for row in page.rows if row[0] in EXPLAINED))


def full_text(found: Comparison) -> str:
    """All texts of the comparison, then those of the best filter."""
    name = found.ranking[0]
    best = found[name]
    parts = {
        "All filters": found,
        f"The best filter, {name}: errors of what people report": best.errors(),
        f"The best filter, {name}: the divergence": best,
    }
    texts = [f"{title}\n\n{part.__rich__().text(WIDE)}\n" for title, part in parts.items()]
    return "\n\n".join(texts)


def run_demo(out: Path, seed: int) -> None:
    """Measure, print the table, write the figure and the full text into the folder `out`."""
    from rich.console import Console

    console = Console()
    console.print(INTRODUCTION)
    found = measure_filters(seed)
    console.print(shown(found))
    path, image = out / "nile-filters.png", BytesIO()
    demo_figure(found).savefig(image, format="png", dpi=150)
    write_atomically(path, image.getvalue())
    full = path.with_suffix(".txt")
    write_atomically(full, full_text(found).encode())
    console.print(f"\nFigure: {path}", highlight=False, soft_wrap=True)
    console.print(f"In full: {full}\n", highlight=False, soft_wrap=True)
    console.print(NEXT, highlight=False)
