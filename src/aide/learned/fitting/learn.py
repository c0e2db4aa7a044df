"""Learning the reverse of a run from pilots, for chains and for SMC.

`learn_joint` stores thousands of pilots and fits mixtures or tables. `learn_tilted` stores
sums over many more pilots and fits models of few parameters. `extend_fit` adds to the fit of a
chain the way back from outputs of a gold standard in modes that the pilots do not show.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import GOLD, Key
from aide._core.validate import check_size
from aide.engine.programs.map_runs import Progress, in_double
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import ignore
from aide.engine.runners.choose import runner_of
from aide.kernels.retrace import parts_of, weighs_origins
from aide.learned.fitting.crossing import learn_crossing
from aide.learned.fitting.families import StateFamily, example_state, family_for, state_size
from aide.learned.fitting.real_states import RealStates, evaluate_log_density
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.fitting.tilts import fit_tilts
from aide.learned.models.divided import DividedModel
from aide.learned.models.joint import JointMixture
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.recorders import (
    PilotRuns,
    Recorder,
    check_pilots,
    nearest,
    run_pilots,
    time_grid,
)
from aide.learned.records.statistics import FOLDS, gather_statistics, shadow_steps, times_of
from aide.learned.records.transitions import Transitions

NUM_LAGGING = 3
"""Lagging components of the models of SMC: along an annealing path states are behind or ahead."""
PILOTS_PER_SQUARE = 32
"""Pilots per squared size of a state for kernels that weigh origins: rare groups need more."""
MOST_BY_ORIGIN = 16384
"""Largest default number of pilots for kernels that weigh origins."""
TILTED_PER_SQUARE = 8
"""Pilots of tilted models per squared size of a state, which is their number of parameters."""
FEWEST_TILTED = 8192
"""Smallest default number of pilots of tilted models."""
MOST_TILTED = 32768
"""Largest default number of pilots of tilted models."""
NUM_WATCHED = 1000
"""Pilots of a chain that are stored beside sums, to find pilots that are stuck or late."""
NUM_OUTPUTS = 200
"""Outputs of the gold standard from which the way back from missed states is learned."""


def learn_joint(
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
        num_pilots: Pilot runs; by default those of `count_pilots`.
        num_components: Gaussians for accepted steps; chosen by held-out likelihood if `None`.
        log_z: $\log\int\gamma$ of a chain, if known.
        progress: Show a progress bar; by default in long runs at a terminal.
    """
    transitions = recorder.transitions
    parts = parts_of(transitions.first().kernel)
    by_origin = any(weighs_origins(part) for part in parts)
    num_pilots = count_pilots(num_pilots, state_size(transitions.start), by_origin)
    if num_components is not None:
        check_size("num_components", num_components)
    family = family_for(transitions.start)
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
    """The number of pilots; by default 2,000 for one dimension, rising to 8,000 for eleven.

    Pilots grouped by origin are more, because rare groups need them: up to `MOST_BY_ORIGIN`.
    """
    if num_pilots is None:
        num = int(np.clip(1400 + 600 * size, 2000, 8000))
        return max(num, min(PILOTS_PER_SQUARE * size**2, MOST_BY_ORIGIN)) if by_origin else num
    check_size("num_pilots", num_pilots, 50)
    return num_pilots


def _log_constants(
    seed: int,
    pilots: PilotRuns,
    family: StateFamily,
    transitions: Transitions,
    num_branches: list[int],
    log_z: float | None,
) -> np.ndarray:
    r"""$\log\hat Z$ of the density at each grid time: a path for SMC, one constant for a chain."""
    grid = time_grid(transitions.num_steps)
    if pilots.have_weights:
        total = np.logaddexp.reduce(pilots.log_evidence, axis=0)
        return (total - np.log(len(pilots.log_evidence)))[grid]
    if log_z is None:
        density, example = transitions.first().log_density, example_state(transitions.start)
        evaluate = lambda states: evaluate_log_density(density, example, states)
        log_z = family.estimate_log_z(seed, pilots, num_branches, evaluate)
    return np.full(grid.size, log_z)


def can_tilt(transitions: Transitions) -> bool:
    """Whether tilted models can serve: one kernel on real states that guesses normal noise."""
    parts = parts_of(transitions.first().kernel)
    if len(parts) != 1 or weighs_origins(parts[0]):
        return False
    is_real = isinstance(family_for(transitions.start), RealStates)
    return is_real and hasattr(parts[0], "reverse_noise_from")


def learn_tilted(
    key: Key,
    recorder: Recorder,
    *,
    num_pilots: int | None,
    progress: bool | None,
    with_power: bool = False,
) -> ReverseFit:
    r"""Run pilots and learn, at every time, how states lag behind the density of the step.

    Args:
        key: A JAX key.
        recorder: The run that is to be retraced; `can_tilt` holds.
        num_pilots: Pilot runs; by default 8 times the squared dimension, from 8,192 to 32,768.
        progress: Show a progress bar; by default in long runs at a terminal.
        with_power: Learn a power of the density too, for runs that lag far behind the density; each
            pilot takes about twice as long.
    """
    transitions = recorder.transitions
    size = state_size(transitions.start)
    if num_pilots is None:
        num_pilots = int(np.clip(TILTED_PER_SQUARE * size**2, FEWEST_TILTED, MOST_TILTED))
    check_size("num_pilots", num_pilots, 50)
    keys = jax.random.split(key, 2)
    with Progress(("pilots", "sums"), (num_pilots, FOLDS), progress) as bars:
        evidence = in_double(jax.eval_shape, lambda: recorder.record(keys[0]).log_evidence)
        watched = min(num_pilots, count_pilots(None, size) if evidence.size else NUM_WATCHED)
        pilots = run_pilots(keys[0], recorder, watched, bars.reporter(0))
        check_pilots(pilots)
        statistics = gather_statistics(keys[1], recorder, num_pilots, bars.reporter(1), with_power)
    mean_weights = MeanWeights.none()
    if pilots.have_weights:
        means = np.diff(pilots.log_evidence, prepend=0.0)
        mean_weights = MeanWeights.learn(pilots.log_weights, means)
    index = nearest(times_of(transitions), transitions.num_steps)
    log_z = np.zeros(len(times_of(transitions)))
    models = (fit_tilts(statistics, shadow_steps(transitions, size)),)
    return ReverseFit(
        models, index, log_z, pilots.log_density, pilots.moves, mean_weights=mean_weights
    )


def extend_fit(
    key: Key, transitions: Transitions, fit: ReverseFit, gold: InferenceAlgorithm
) -> ReverseFit:
    """Add the way back from the gold standard's outputs to a fit, unless the fit serves them."""
    parts, model = parts_of(transitions.first().kernel), fit.models[0]
    model = model.here if isinstance(model, DividedModel) else model
    if len(parts) != 1 or transitions.inputs is not None or not isinstance(model, JointMixture):
        raise ValueError(
            "towards= is for chains of real numbers all of whose steps are of one kernel, got "
            f"{len(parts)} kernels per step and models of {type(model).__name__}"
            f"{'' if transitions.inputs is None else ', scheduled'}. Leave it out."
        )
    key_gold, key_learn = jax.random.split(key)
    runs = np.arange(NUM_OUTPUTS)
    outputs, _ = runner_of(gold).simulate(key_gold, GOLD, runs, Chunk(NUM_OUTPUTS), ignore)
    log_z = float(np.asarray(fit.log_z)[-1])
    found = learn_crossing(key_learn, transitions, model, log_z, outputs)
    return fit if found is None else dataclasses.replace(fit, models=(found,))
