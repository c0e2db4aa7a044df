"""Learning the reverse of a run from pilots: the same way for chains and for SMC."""

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import Key
from aide._core.validate import check_size
from aide.kernels.retrace import parts_of, weighs_origins
from aide.learned.fitting.families import StateFamily, example_state, family_for, state_size
from aide.learned.fitting.log_constant import evaluate_log_density
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.pilots import Pilots, check_pilots, nearest, run_pilots, time_grid
from aide.learned.records.recording import Recorder
from aide.learned.records.transitions import Transitions
from aide.running.progress import Progress
from aide.smc.smc import ALL_ZERO

NUM_LAGGING = 3
"""Lagging components of the models of SMC: along an annealing path states are behind or ahead."""
PER_SQUARE, MOST = 32, 16384
"""Pilots that are grouped by origin: so many times the squared size of a state, at most so many."""


def learn_reverse(
    key: Key,
    recorder: Recorder,
    *,
    num_pilots: int | None,
    num_components: int | None,
    log_z: float | None,
    progress: bool | None,
) -> ReverseFit:
    r"""Run pilots and fit, along a grid of times, the joint law of state and record.

    Args:
        key: A JAX key.
        recorder: The run that is to be retraced.
        num_pilots: Pilot runs: by default 2,000 for one dimension up to 8,000 for ten, more for
            kernels that weigh origins.
        num_components: Gaussians for accepted steps; chosen by held-out likelihood if `None`.
        log_z: $\log\int\gamma$ of a chain, if it is known.
        progress: Show a progress bar; by default if it takes long and a person watches.
    """
    transitions = recorder.transitions
    parts = parts_of(transitions.first().kernel)
    by_origin = any(weighs_origins(part) for part in parts)
    num_pilots = count_pilots(num_pilots, state_size(transitions.initial), by_origin)
    if num_components is not None:
        check_size("num_components", num_components)
    family = family_for(transitions.initial)
    seed = int(jax.random.bits(jax.random.fold_in(key, 1), dtype=jnp.uint32))
    branches = [part.num_branches for part in parts]
    totals = (num_pilots, family.num_fits(len(branches), num_components))
    with Progress(("pilots", "fits"), totals, progress) as bars:
        pilots = run_pilots(jax.random.fold_in(key, 0), recorder, num_pilots, bars.reporter(0))
        check_pilots(pilots)
        constants = _log_constants(seed, pilots, family, transitions, branches, log_z)
        lagging = NUM_LAGGING if pilots.have_weights else 0
        models, tried = family.learn(
            seed, pilots.parts, branches, constants, num_components, lagging, bars.reporter(1)
        )
    mean_weights = MeanWeights.none()
    if pilots.have_weights:
        means = np.diff(pilots.log_evidence, prepend=0.0)
        mean_weights = MeanWeights.learn(pilots.log_weights, means)
    index = nearest(time_grid(transitions.num_steps), transitions.num_steps)
    return ReverseFit(
        models, index, constants, pilots.log_density, pilots.moves, tried, mean_weights
    )


def count_pilots(num_pilots: int | None, size: int, by_origin: bool = False) -> int:
    """How many pilots: as stated, or 2,000 for one dimension up to 8,000 for ten.

    Where they are grouped by origin, rare groups need more: up to 16,384 for 23 dimensions.
    """
    if num_pilots is None:
        num = int(np.clip(1400 + 600 * size, 2000, 8000))
        return max(num, min(PER_SQUARE * size**2, MOST)) if by_origin else num
    check_size("num_pilots", num_pilots, 50)
    return num_pilots


def _log_constants(
    seed: int,
    pilots: Pilots,
    family: StateFamily,
    transitions: Transitions,
    num_branches: list[int],
    log_z: float | None,
) -> np.ndarray:
    r"""$\log\hat Z$ of the density at each grid time: SMC estimates it, a chain has one only."""
    grid = time_grid(transitions.num_steps)
    if pilots.have_weights:
        dead = pilots.log_evidence[:, -1] == -np.inf
        if dead.any():
            raise ValueError(f"in {dead.sum()} of {dead.size} pilot runs {ALL_ZERO}")
        total = np.logaddexp.reduce(pilots.log_evidence, axis=0)
        return (total - np.log(len(pilots.log_evidence)))[grid]
    if log_z is None:
        density, example = transitions.first().log_density, example_state(transitions.initial)
        evaluate = lambda states: evaluate_log_density(density, example, states)
        log_z = family.estimate_log_z(seed, pilots, num_branches, evaluate)
    return np.full(grid.size, log_z)
