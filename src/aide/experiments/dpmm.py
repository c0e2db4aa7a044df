"""Dirichlet process mixtures (Figure 5 and the supplement's galaxies): AIDE and a heuristic."""

import csv
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import Any

import numpy as np

from aide.estimation.summary import Estimate
from aide.estimation.yardsticks import compare_probe
from aide.experiments.results import Row, SharedGold, new_figure, plot_curve, results_of, select
from aide.experiments.runner import Experiment, Job, Options, read_column, source_of
from aide.problems.dpmm import DirichletMixture

SYNTHETIC = (
    -1.06, 0.52, 1.73, -0.98, -1.21, 0.41, 0.60, -1.12, 1.81, 0.47, -0.90, -0.33, 0.55,
    1.69, -1.03, -0.38, 0.36, 0.49, -1.15, 1.77, 0.58, -0.29, -0.94, 0.44, 1.84,
)  # fmt: skip
"""25 points in about four clusters."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"num_runs": 10, "particles": (1, 10), "sweeps": (0, 1), "gold": 10},
    "default": {"num_runs": 62, "particles": (1, 4, 10, 40), "sweeps": (0, 4), "gold": 100},
    "paper": {
        "num_runs": 62,
        "particles": (1, 2, 4, 8, 10, 20, 40, 80, 100),
        "sweeps": (0, 4),
        "gold": 100,
    },
}
GALAXY_SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"num_runs": 6, "particles": (10,), "sweeps": (0, 1), "gold": 10},
    "default": {"num_runs": 30, "particles": (1, 4, 10, 40), "sweeps": (0, 1, 4), "gold": 100},
    "paper": {
        "num_runs": 62,
        "particles": (1, 2, 4, 10, 20, 40, 100, 200, 400),
        "sweeps": (0, 1, 2, 4),
        "gold": 400,
    },
}
GOLD_SWEEPS = 4
"""Sweeps of the gold standard before each datum, as in the paper."""
COLOURS = {"prior": "#c0392b", "optimal": "#1f6fb4"}
"""Colours of the proposals."""


def dpmm(options: Options) -> Experiment:
    """Figure 5: 25 synthetic points, or the user's data."""
    data = np.array(SYNTHETIC) if options.data is None else read_column(options.data)
    return _experiment("dpmm", data, SCALES[options.scale], options)


def galaxy(options: Options) -> Experiment:
    """The supplement's experiment: 40 galaxy velocities, standardised (n - 1 in the variance)."""
    if options.data is None:
        text = resources.files("aide").joinpath("data/galaxies.csv").read_text()
        data = np.array([float(row["velocity_km_s"]) for row in csv.DictReader(text.splitlines())])
    else:
        data = read_column(options.data)
    standardised = (data - data.mean()) / data.std(ddof=1)
    return _experiment("galaxy", standardised, GALAXY_SCALES[options.scale], options)


def _experiment(name: str, data: np.ndarray, scale: dict[str, Any], options: Options) -> Experiment:
    num = options.num_runs or scale["num_runs"]
    particles = options.particles or scale["particles"]
    meta = max(options.meta or (1,))
    model = DirichletMixture(data)
    gold_algorithm = model.smc(scale["gold"], proposal="optimal", num_sweeps=GOLD_SWEEPS)
    gold = SharedGold(gold_algorithm, options.seed, num)
    jobs = []
    for sweeps in scale["sweeps"]:
        for proposal in COLOURS:
            for count in particles:
                row = Row(
                    name,
                    "smc",
                    proposal,
                    count,
                    num_sweeps=sweeps,
                    gold="approximate",
                    num_meta_target=meta,
                    num_gold=num,
                    num_target=num,
                )
                weight = scale["gold"] * GOLD_SWEEPS + 2.0 * count * (sweeps + 0.2)
                jobs.append(Job((row,), partial(_measure, model, gold, row), weight))
    settings = {**scale, "num_runs": num, "particles": particles, "meta": meta}
    source = source_of(options.data, data)
    return Experiment(name, jobs, partial(_figure, data), settings, source)


def _measure(model: DirichletMixture, gold: SharedGold, row: Row) -> list[Row]:
    assert row.num_particles is not None
    assert row.num_sweeps is not None
    proposal: Any = row.proposal
    target = model.smc(row.num_particles, proposal=proposal, num_sweeps=row.num_sweeps)
    draws = gold.measure(target, row.num_meta_target)
    probe = compare_probe(draws, model.num_clusters).difference
    cells = {"probe": probe.value, "probe_std_error": probe.std_error}
    return [replace(row, **results_of(Estimate(draws)), **cells)]


def _figure(data: np.ndarray, rows: list[Row]) -> Any:
    figure, axes = new_figure(1, 3, (12, 3.6))
    axes[0].hist(data, bins=20, color="grey")
    axes[0].set(title="data", xlabel="value", ylabel="count")
    sweeps = sorted({row.num_sweeps or 0 for row in rows})
    for proposal, colour in COLOURS.items():
        for count, style in zip(sweeps, ("--", "-.", ":", "-")[-len(sweeps) :], strict=False):
            chosen = select(rows, proposal=proposal, num_sweeps=count)
            style_of = {"color": colour, "ls": style, "label": f"{proposal}, {count} sweeps"}
            plot_curve(axes[1], chosen, "num_particles", **style_of)
            cells = ("probe", "probe_std_error")
            plot_curve(axes[2], chosen, "num_particles", *cells, **style_of)
    for row in select(rows, proposal="prior", num_sweeps=0, num_particles=1):
        for axis, value in ((axes[1], row.value), (axes[2], row.probe)):
            axis.plot(
                [1], [value], "o", ms=10, mfc="none", mec="black", label="likelihood weighting"
            )
    axes[1].set(title="AIDE", ylabel="AIDE estimate (nats)", yscale="symlog")
    axes[2].set(title="number of clusters", ylabel="expected number minus gold standard's")
    axes[2].axhline(0.0, color="grey", lw=0.8)
    for axis in axes[1:]:
        axis.set(xscale="log", xlabel="particles")
    axes[1].legend(frameon=False, fontsize=7)
    return figure
