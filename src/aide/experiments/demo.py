"""The demonstration: how few particles can a filter of the Nile's flow get away with?"""

from io import BytesIO
from pathlib import Path
from typing import Any

import jax

from aide._core.files import write_atomically
from aide.algorithms.particle_filter import ParticleFilter
from aide.comparing.compare import compare
from aide.comparing.comparison import Comparison
from aide.problems.linear_gaussian import LocalLevelModel, nile

PARTICLES = (10, 100, 300)
PROPOSALS = {"bootstrap": "#c0392b", "optimal": "#1f6fb4"}
"""And the colours of their curves."""
NUM_RUNS = 200
NUM_META = 10
GOOD_ENOUGH = 0.5

INTRODUCTION = (
    "[bold]100 years of the Nile's flow[/], a river level seen through noise. Two particle filters "
    "guess the whole path of the level; a Kalman smoother knows its exact posterior. AIDE bounds, "
    "in nats, how far each filter's output is from that posterior: 0 is perfect, "
    f"{GOOD_ENOUGH} good enough for most purposes. {NUM_RUNS} runs each way, {NUM_META} "
    "meta-inference runs per output; the looseness says how much they add at the filter's own "
    "outputs. Below, 'optimal, 30' is the filter with the optimal proposal and 30 particles.\n"
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
        most_meta=NUM_META,  # a demonstration is over in a minute: M is not raised
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
    from rich.text import Text

    console = Console()
    console.print(INTRODUCTION)
    found = measure_filters(seed)
    console.print(found)
    path, image = out / "nile-filters.png", BytesIO()
    demo_figure(found).savefig(image, format="png", dpi=150)
    write_atomically(path, image.getvalue())
    console.print("\nThe last filter in full:", style="bold")
    console.print(Text(str(list(found.values())[-1])), soft_wrap=True)
    console.print(f"\nFigure: {path}", highlight=False, soft_wrap=True)
