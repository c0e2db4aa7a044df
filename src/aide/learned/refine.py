"""Learning tighter meta-inference for AIS and SMC samplers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.random import as_key
from aide._core.validate import check_size
from aide.kernels.retrace import parts_of
from aide.learned.fit import ReverseFit, example_state, state_size
from aide.learned.learn import check_pilots, count_pilots, learning_bars
from aide.learned.models import learn_mixtures, learn_tables
from aide.learned.pilots import nearest, run_pilots, time_grid
from aide.learned.refined import RefinedSmc
from aide.learned.selected import SmcRun
from aide.learned.survival import MeanWeights
from aide.smc.moves import KernelMove, Steps
from aide.smc.smc import ALL_ZERO, Smc

NUM_LAGGING = 3
"""Lagging components of every model: along an annealing path the state is behind or ahead."""


def refine(
    key: Any,
    algorithm: Smc,
    *,
    num_reverse: int = 100,
    num_islands: int | None = None,
    num_pilots: int | None = None,
    num_components: int | None = None,
    fit: ReverseFit | None = None,
    label: str = "",
    progress: bool | None = None,
) -> RefinedSmc:
    r"""The same algorithm with learned meta-inference, where the canonical one is loose.

    For `aide.ais`, `aide.tempered_smc` and other `Smc` whose moves are kernels followed by a weight
    (one `Steps`). Canonical meta-inference walks back as if every kernel had reached its
    density; with coarse schedules or few particles that is far from what happened. Outputs are
    those of `algorithm` for the same key, and any fit gives a valid bound. See
    `aide.learned.refined` for the construction, `result.looseness` for whether it is needed.

    Args:
        key: A JAX key for pilot runs; use another one for the estimate itself.
        algorithm: What to refine.
        num_reverse: Reverse particles, for the path that led to the output. Looseness falls about
            as their inverse.
        num_islands: Populations, for the other particles: unless stated, as many as make up
            `num_reverse` particles.
        num_pilots: Pilot runs: by default 2,000 for one dimension up to 8,000 for ten.
        num_components: Gaussians for accepted steps; chosen by held-out likelihood unless stated.
        fit: Something learned before, `refined.fit` or from `aide.learned.load_reverse`; no
            pilots are run.
        label: A name for tables.
        progress: Show a progress bar; by default if it takes long and a person watches.
    """
    segment, move = _check(algorithm)
    label = label or f"{algorithm.label}, refined"
    if fit is None:
        counts = (num_pilots, num_components)
        fit = _learn(as_key(key), algorithm, segment, move, *counts, progress)
    elif (
        fit.num_steps != segment.num_steps or len(fit.mean_weights.log_own) != segment.num_steps + 1
    ):
        raise ValueError(
            f"this fit is for {fit.num_steps} moves of an SMC algorithm, got one with "
            f"{segment.num_steps} moves. Leave fit out to learn one."
        )
    fit.check_serves(algorithm.initial, move.log_density, move.kernel)
    if num_islands is None:
        num_islands = max(1, num_reverse // algorithm.num_particles)
    return RefinedSmc(algorithm, fit, num_reverse, num_islands, label=label)


def _check(algorithm: Any) -> tuple[Steps, KernelMove]:
    moves = algorithm.moves if isinstance(algorithm, Smc) else ()
    if len(moves) == 1 and isinstance(moves[0], Steps) and moves[0].num_steps:
        segment = moves[0]
        move = segment.move_at(jax.tree.map(lambda a: np.asarray(a)[0], segment.inputs))
        if isinstance(move, KernelMove):
            parts_of(move.kernel)
            return segment, move
    name = getattr(algorithm, "label", "") or type(algorithm).__name__
    raise TypeError(
        "refine needs an algorithm built by aide.ais or aide.tempered_smc with at least two "
        "temperatures, or an aide.smc.Smc with one aide.smc.Steps of moves that are kernels "
        f"followed by a weight (aide.smc.KernelMove), got {name}. Raise num_meta_target instead."
    )


def _learn(
    key: Any,
    algorithm: Smc,
    segment: Steps,
    move: KernelMove,
    num_pilots: int | None,
    num_components: int | None,
    progress: bool | None,
) -> ReverseFit:
    num_pilots = count_pilots(num_pilots, state_size(algorithm.initial))
    if num_components is not None:
        check_size("num_components", num_components)
    _, discrete = example_state(algorithm.initial)
    seed = int(jax.random.bits(jax.random.fold_in(key, 1), dtype=jnp.uint32))
    branches = [part.num_branches for part in parts_of(move.kernel)]
    grid, tried, run = time_grid(segment.num_steps), {}, SmcRun(algorithm)
    with learning_bars(num_pilots, len(branches), num_components, progress) as bars:
        pilots = run_pilots(jax.random.fold_in(key, 0), run, num_pilots, bars.reporter(0))
        check_pilots(pilots)
        _check_alive(pilots.log_evidence[:, -1])
        constants = _log_mean(pilots.log_evidence)[grid]
        if discrete:
            models = learn_tables(pilots.parts, branches, constants)
        else:
            counts = (num_components, bars.reporter(1), NUM_LAGGING)
            models, tried = learn_mixtures(seed, pilots.parts, branches, constants, *counts)
    means = np.diff(pilots.log_evidence, prepend=0.0)
    mean_weights = MeanWeights.learn(pilots.log_weights, means)
    index = nearest(grid, segment.num_steps)
    return ReverseFit(
        models, index, constants, pilots.log_density, pilots.moves, tried, mean_weights
    )


def _check_alive(log_evidence: np.ndarray) -> None:
    dead = log_evidence == -np.inf
    if dead.any():
        raise ValueError(f"in {dead.sum()} of {dead.size} pilot runs {ALL_ZERO}")


def _log_mean(logs: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
