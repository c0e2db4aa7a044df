"""Gold standards made by hand: numbers that no pilot chose, so that nothing has to run."""

import jax
import numpy as np

from aide._core.algorithm import Aside
from aide.auditing.audit import widen
from aide.diagnosing.steps import StepDiagnosis
from aide.gold_standards.annealed import Annealed
from aide.gold_standards.pilots.schedule import Recipe
from aide.gold_standards.pilots.tuners import HmcTuner
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard, Making

STEP = StepDiagnosis(1, 0.3, 0.9, 0.8, 3.0, 0.0, None)
RECORD = Record(
    title="Tempered SMC, made by hand",
    goal=0.05,
    chosen=(("start", "Normal"), ("kernel", "HMC")),
    looseness=(0.02, 0.01),
    log_evidence=(-1.5, 0.03),
    scatter=0.2,
    agreements=(Agreement("itself at half the budget", 0.1, 0.05, 0.2, "passed"),),
    steps=(STEP,),
    num_evaluations=(1e4, 100.0),
    seconds=1.0,
)
RECIPE = Recipe(
    temperatures=np.array([0.1, 0.4, 1.0]),
    settings=np.array([[[0.9, 2.0]], [[0.7, 3.0]]]),
    factors=np.array([np.diag([1.5, 1.0]), np.diag([1.0, 0.6])]),
    num_particles=3,
)


def hand_made(log_joint, start, tuner=None, recipe=RECIPE, record=RECORD):
    """A gold standard with these numbers, and one from a start twice as wide as its rival."""
    tuner, made = tuner or HmcTuner(True), []
    for factor, label in ((1.0, ""), (2.0, "from a wider start")):
        begin = widen(jax.random.key(0), start, factor)
        algorithm = recipe.build(begin, log_joint, tuner, label)
        made.append(Annealed(begin, recipe, None, algorithm, 0.0))
    making = Making(record, made[1].algorithm, tuple(made))
    return GoldStandard(made[0].algorithm, Aside(making))
