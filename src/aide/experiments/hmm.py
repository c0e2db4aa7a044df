"""A hidden Markov model (Figure 4): exact and SMC gold standards, prior and optimal proposals.

The model is the built-in one, or a user's own as JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide.algorithms.particle_filter import ParticleFilter
from aide.experiments.results import (
    Row,
    SharedGold,
    estimates_for,
    new_figure,
    plot_curve,
    results_of,
    select,
)
from aide.experiments.runner import BadInput, Experiment, Job, Options, read_text, source_of
from aide.problems.hidden_markov import HiddenMarkovModel

FIELDS = ("initial", "transition", "emission", "observations")
"""Entries that a user's file must have."""


def read_hmm(
    path: Path | None,
) -> tuple[HiddenMarkovModel, np.ndarray | None, dict[str, str]]:
    """The model, the true states if they are known, and the source of the data.

    The built-in model has 20 states, 4 symbols and 50 steps; its rows were drawn from
    Dirichlet(0.1) and Dirichlet(0.25) and mixed with a little of the uniform distribution; states
    and observations were simulated from it.
    """
    if path is None:
        text = resources.files("aide").joinpath("data/hmm.json").read_text()
    else:
        text = read_text(path)
    try:
        content: Any = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}.") from None
    lacking = [name for name in FIELDS if not isinstance(content, dict) or name not in content]
    if lacking:
        raise BadInput(f"{path} lacks {lacking[0]!r}; it needs an object of {', '.join(FIELDS)}.")
    try:
        arrays = [np.asarray(content[name], float) for name in FIELDS]
        states = None if content.get("states") is None else np.asarray(content["states"], float)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{path} holds an entry that is not a number: {error}.") from None
    _check_shapes(path, *arrays)
    try:
        model = HiddenMarkovModel(*arrays)
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    return model, _check_states(path, states, arrays), source_of(path, *arrays)


def _check_shapes(
    path: Any,
    initial: np.ndarray,
    transition: np.ndarray,
    emission: np.ndarray,
    observed: np.ndarray,
) -> None:
    num = initial.shape[0] if initial.ndim == 1 else 0
    right = num > 0 and transition.shape == (num, num) and emission.ndim == 2
    if not right or emission.shape[0] != num or observed.ndim != 1 or observed.size == 0:
        raise BadInput(
            f"{path}: shapes must be initial [K], transition [K][K], emission [K][S], observations "
            f"[T], got {initial.shape}, {transition.shape}, {emission.shape}, {observed.shape}."
        )
    if (observed != np.round(observed)).any() or np.abs(observed).max() > 1e9:
        raise BadInput(f"{path}: observations must be whole numbers (0-based symbols).")


def _check_states(path: Any, states: np.ndarray | None, arrays: list[np.ndarray]) -> Any:
    """Check the true states before all runs, although only the figure at the end shows them."""
    if states is None:
        return None
    num, steps = arrays[0].shape[0], arrays[3].shape[0]
    whole = states.shape == (steps,) and np.isin(states, np.arange(num)).all()
    if not whole:
        raise BadInput(f"{path}: states must be {steps} whole numbers from 0 to {num - 1}.")
    return states.astype(int)


GOLD_PARTICLES = 1000
"""Particles of the approximate gold standard, as in the paper."""
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"num_runs": 20, "metas": (1, 10), "particles": (1, 10)},
    "default": {"num_runs": 100, "metas": (1, 100), "particles": (1, 3, 10, 30, 100)},
    "paper": {"num_runs": 100, "metas": (1, 100), "particles": (1, 3, 10, 30, 100)},
}
COLOURS = {"prior": "#c0392b", "optimal": "#1f6fb4"}
"""Colours of the proposals."""


def hmm(options: Options) -> Experiment:
    """The experiment at the scale of the options, with their changes."""
    scale = SCALES[options.scale]
    num = options.num_runs or scale["num_runs"]
    metas = tuple(sorted(options.meta or scale["metas"]))
    particles = options.particles or scale["particles"]
    model, states, source = read_hmm(options.data)
    golds = {
        "exact": SharedGold(model.posterior(), options.seed, num),
        "approximate": SharedGold(make_filter(model, "optimal", GOLD_PARTICLES), options.seed, num),
    }
    jobs = []
    for kind, gold in golds.items():
        for proposal in COLOURS:
            for count in particles:
                row = Row("hmm", "smc", proposal, count, gold=kind, num_gold=num, num_target=num)
                rows = [replace(row, num_meta_target=meta) for meta in metas]
                run = partial(_measure, model, gold, rows)
                jobs.append(Job(tuple(rows), run, 1 + count / 20))
    settings = {"num_runs": num, "metas": metas, "particles": particles}
    draw_figure = partial(_figure, model, states, options.seed)
    return Experiment("hmm", jobs, draw_figure, settings, source)


def make_filter(model: HiddenMarkovModel, proposal: str, num_particles: int) -> ParticleFilter:
    """A particle filter with the prior or the optimal proposal."""
    chosen = model.optimal_proposal() if proposal == "optimal" else None
    label = f"SMC, {proposal} proposal, {num_particles} particles"
    return ParticleFilter(model.state_space(), num_particles, chosen, label=label)


def _measure(model: HiddenMarkovModel, gold: SharedGold, rows: Sequence[Row]) -> list[Row]:
    assert rows[0].num_particles is not None
    target = make_filter(model, rows[0].proposal, rows[0].num_particles)
    metas = [row.num_meta_target for row in rows]
    estimates = estimates_for(gold.measure(target, max(metas)), metas)
    return [
        replace(row, **results_of(estimate)) for row, estimate in zip(rows, estimates, strict=True)
    ]


def _figure(model: HiddenMarkovModel, states: Any, seed: int, rows: list[Row]) -> Any:
    figure, axes = new_figure(3, 3, (11, 8))
    algorithms = [
        ("posterior marginals", model.posterior()),
        (f"SMC, optimal, {GOLD_PARTICLES} (gold)", make_filter(model, "optimal", GOLD_PARTICLES)),
        ("A: SMC, prior, 1", make_filter(model, "prior", 1)),
        ("B: SMC, prior, 10", make_filter(model, "prior", 10)),
        ("C: SMC, optimal, 100", make_filter(model, "optimal", 100)),
    ]
    num_states = model.transition.shape[0]
    panels = [axes[1, 0], axes[2, 0], axes[0, 1], axes[1, 1], axes[2, 1]]
    if states is None:
        axes[0, 0].set_axis_off()
    else:
        _show_states(axes[0, 0], np.eye(num_states)[states], "true states")
    for axis, (title, algorithm) in zip(panels, algorithms, strict=True):
        _show_states(axis, _marginals(algorithm, seed, num_states), title)
    for axis, kind, title in (
        (axes[0, 2], "exact", "exact gold standard"),
        (axes[1, 2], "approximate", "SMC gold standard"),
    ):
        _plot_panel(axis, select(rows, gold=kind), title)
    axes[2, 2].set_axis_off()
    axes[2, 2].legend(*axes[0, 2].get_legend_handles_labels(), frameon=False, loc="center")
    return figure


def _plot_panel(axis: Any, rows: list[Row], title: str) -> None:
    metas = sorted({row.num_meta_target for row in rows})
    for proposal, colour in COLOURS.items():
        for meta, style in zip(metas, ("--", "-", ":", "-."), strict=False):
            chosen = select(rows, proposal=proposal, num_meta_target=meta)
            label = f"{proposal} proposal, M = {meta}"
            plot_curve(axis, chosen, "num_particles", color=colour, ls=style, label=label)
    axis.set(xscale="log", xlabel="particles", ylabel="AIDE estimate (nats)", title=title)


def _marginals(
    algorithm: InferenceAlgorithm, seed: int, num_states: int, num_runs: int = 400
) -> np.ndarray:
    keys = jax.random.split(jax.random.key(seed), num_runs)
    with jax.enable_x64(True):
        paths = np.asarray(jax.lax.map(lambda k: algorithm.simulate(k)[0], keys, batch_size=16))
    return np.stack([np.bincount(column, minlength=num_states) / num_runs for column in paths.T])


def _show_states(axis: Any, table: np.ndarray, title: str) -> None:
    axis.imshow(table.T, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axis.set(title=title, xlabel="time", ylabel="state")
