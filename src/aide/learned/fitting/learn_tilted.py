"""Learning tilted models from pilots: few parameters, many pilots of which only sums are kept."""

import jax
import numpy as np

from aide._core.types import Key
from aide._core.validate import check_size
from aide.kernels.retrace import parts_of, weighs_origins
from aide.learned.fitting.families import family_for, state_size
from aide.learned.fitting.learn import count_pilots
from aide.learned.fitting.real_states import RealStates
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.fitting.tilts import fit_tilts
from aide.learned.models.mean_weights import MeanWeights
from aide.learned.records.pilots import check_pilots, nearest, run_pilots
from aide.learned.records.recording import Recorder
from aide.learned.records.statistics import FOLDS, gather_statistics, shadow_steps, times_of
from aide.learned.records.transitions import Transitions
from aide.running.progress import Progress

PER_SQUARE, FEWEST, MOST = 8, 8192, 32768
"""Pilots: so many times the squared size of a state, within limits."""
NUM_WATCHED = 1000
"""Pilots of a run without weights that are kept whole, for what they say about the run."""


def can_tilt(transitions: Transitions) -> bool:
    """Whether tilted models serve: one kernel on real states whose own guess is normal noise."""
    parts = parts_of(transitions.first().kernel)
    if len(parts) != 1 or weighs_origins(parts[0]):
        return False
    is_real = isinstance(family_for(transitions.initial), RealStates)
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
        num_pilots: Pilots; by default 8 times the squared dimension, from 8,192 to 32,768.
        progress: Show a progress bar; by default if it takes long and a person watches.
        with_power: Learn a power of the density too, for runs that lag far behind it; each pilot
            takes about twice as long.
    """
    transitions = recorder.transitions
    size = state_size(transitions.initial)
    if num_pilots is None:
        num_pilots = int(np.clip(PER_SQUARE * size**2, FEWEST, MOST))
    check_size("num_pilots", num_pilots, 50)
    keys = jax.random.split(key, 2)
    with Progress(("pilots", "sums"), (num_pilots, FOLDS), progress) as bars:
        shapes = jax.eval_shape(lambda: recorder.record(keys[0])[3])
        watched = min(num_pilots, count_pilots(None, size) if shapes.size else NUM_WATCHED)
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
