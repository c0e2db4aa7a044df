"""A fit for a chain, extended to outputs of a gold standard that its pilots do not show."""

import dataclasses

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import GOLD
from aide._core.types import Key
from aide.kernels.retrace import parts_of
from aide.learned.fitting.crossing import learn_crossing
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.models.divided import DividedModel
from aide.learned.models.mixture import JointMixture
from aide.learned.records.transitions import Transitions
from aide.running.choose import runner_of
from aide.running.chunks import Chunk
from aide.running.map_runs import ignore

NUM_OUTPUTS = 200
"""Of the gold standard."""


def extend_fit(
    key: Key, transitions: Transitions, fit: ReverseFit, gold: InferenceAlgorithm
) -> ReverseFit:
    """The fit with the way back from the gold standard's outputs; itself if it serves these."""
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
