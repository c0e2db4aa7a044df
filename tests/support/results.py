"""Results made by hand, one of every kind, and gold standards whose numbers no pilot chose.

What all results must do is tested on these, and nothing has to run.
"""

import math
from functools import cache

import jax
import numpy as np

import aide
from aide._core.algorithm import Aside
from aide.algorithms.score_check import ScoreCheck, ScoreTest
from aide.auditing.audit import widen
from aide.auditing.result import Audit, AuditTest
from aide.auditing.simulated import Simulated
from aide.auditing.simulated_runs import Pieces
from aide.checking.algorithm.laws import Evidence
from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.check import KernelCheck
from aide.checking.kernel.laws import LawTest
from aide.checking.kernel.runs import StartQuality
from aide.comparing.compare import compare_estimates
from aide.comparing.compare_draws import DrawsDifference
from aide.comparing.draw_sets import make_draw_set
from aide.comparing.mean_tests import FunctionTest
from aide.convergence.convergence import Convergence
from aide.diagnosing import Diagnosis, StepDiagnosis
from aide.engine.draws import Runs
from aide.engine.programs.identity import Identity
from aide.estimation import Contrast, Sandwich
from aide.estimation.closeness import judge
from aide.estimation.terms import Mean
from aide.estimation.until.plan import Allocation
from aide.gold_standards.annealed import Annealed
from aide.gold_standards.pilots.schedule import Recipe
from aide.gold_standards.pilots.tuners import HmcTuner
from aide.gold_standards.record import Agreement, Record
from aide.gold_standards.result import GoldStandard, Making
from aide.problems.distributions import Normal
from aide.tuning.data_sets import DataSweep
from aide.tuning.pilots import Planned
from aide.tuning.point import Point
from aide.tuning.sweep import Sweep
from aide.tuning.tuned import TestedSetting, Tuned
from support.made import estimate_with

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


NAME = "<b>fit</b> [/] \x1b[31mred\x1b[0m \u202e"
SHOWN = "<b>fit</b> [/] �[31mred�[0m �"
NOISE = np.linspace(-1.0, 1.0, 60)
BLANK = (np.nan, np.nan)


def _estimate(shift=0.2):
    return estimate_with(shift + NOISE, shift + NOISE, names=("the truth", NAME))


def _errors():
    draws = _estimate().draws
    values = [{"a": NOISE, NAME: np.stack([NOISE**2, NOISE**3], axis=1)}, {"a": NOISE + 0.3}]
    values[1][NAME] = 0.2 + np.stack([NOISE**2, 2 * NOISE**3], axis=1)
    for side, value in zip(draws.sides, values, strict=True):
        runs = Runs(side.own, side.cross, value)
        draws = draws.with_side(side.with_runs(runs))
    return aide.summarise(draws).errors(functions={"P": lambda value: value["a"] > 0})


def _simulated():
    table = np.stack([NOISE, NOISE], axis=1)
    real = NOISE[:, None]
    return Simulated(Pieces(NOISE + 0.3, real, NOISE, table, real, real, real), 0.0, NAME)


def _convergence():
    estimates = (estimate_with(NOISE, NOISE, names=(NAME, "chain")), _estimate())
    return Convergence((1, 4), estimates, BLANK, BLANK, BLANK, 0, "runs.", (f"{NAME} is stuck",))


def _audit():
    estimate = _estimate()
    test = AuditTest(NAME, estimate, judge(estimate, 0.5))
    return Audit(
        (test,), _simulated(), 0.5, (f"{NAME} was not tested",), NAME, Identity.of(NAME, {})
    )


def _check():
    evidence = (
        Evidence(2, NAME, 1e-9, "41% were positive", 100),
        Evidence(1, "as given", None, "no region", 100),
        Evidence(5, "as given", 0.3, "is 1.02", 100, 0.02),
    )
    return CheckReport(NAME, evidence, 1e-4, 1000, place="step 2 of 4 (Extend)")


def _kernel():
    law = LawTest("invariance", 0.4, 1.3, "the mean")
    return KernelCheck(0.4, 1e-4, None, law, StartQuality(1000.0, 0.1, 0.0, 0.5), 4000, NAME)


def _diagnosis():
    steps = (
        StepDiagnosis(0, None, None, 0.5, 10.0, 0.0, None),
        StepDiagnosis(1, 0.2, 0.01, 0.9, 1.0, 1.0, 0.1),
    )
    return Diagnosis(NAME, 10, 3, steps, np.array([-np.inf, 0.0, 1.0]))


def _point(setting, value, seconds):
    return Point(
        setting, 10, seconds, value, 0.0432, value, 0.8 * value, 1.2 * value, 0.012, 30, 2_000
    )


def _sweep():
    settings = [{"num_particles": num, "step_size": 0.1} for num in (10, 100, 1000)]
    values = (123.456, 1.234, 0.0123)
    points = tuple(_point(s, v, 1e-3) for s, v in zip(settings, values, strict=True))
    return Sweep(NAME, points, 0.5)


def _data_sweep():
    points = tuple(_point({"data": f"series {i}"}, 0.5 + i, 0.2) for i in range(4))
    features = tuple({"slope": 0.1 * i, "noise level": 12.0} for i in range(4))
    return DataSweep(points, features, None, 0)


def _tuned():
    names = ({"num_particles": 10}, {"num_particles": 100}, {"num_particles": 1000})
    ladder = tuple(
        Planned(
            i,
            name,
            Allocation((200, 200), (1, 4), (0.01, 0.02), None, 3.0 / 10**i, 0.1),
            0.01,
            10,
            1.0,
        )
        for i, name in enumerate(names)
    )
    tried = {1: TestedSetting(ladder[1], _estimate(0.05), 0.5, 12_345)}
    return Tuned(NAME, 0.5, ladder, tried, "seconds of one run", 98_765)


def _gold():
    start = Normal(0.0, 2.0)
    algorithm = aide.sir(start, start.log_prob, num_particles=2)
    return GoldStandard(algorithm, Aside(Making(RECORD, None)))


def _draws_difference():
    sets = [make_draw_set(name, NOISE[:, None] + i, False) for i, name in enumerate((NAME, "b"))]
    tests = (
        FunctionTest("location of x[0]", -0.123456, 0.123456, 1.234e-7, 0),
        FunctionTest("spread of x[0]", 0.99, 1.01, 0.5, 0),
    )
    return DrawsDifference(sets[0], sets[1], 0.12, 0.1, 0.02, tests, 0.95, 0.3, True)


def _score_check():
    test = ScoreTest("x[0]", "mean of the score", 0.0, 0.00123, 0.0345, 0.003)
    return ScoreCheck((test,), 1e-4, NAME)


@cache
def _with_outputs():
    """A real estimate whose outputs are kept, so that errors of variables can be told."""
    gold, target = (aide.Tractable.of(Normal(mean, sd)) for mean, sd in ((0.0, 1.0), (0.4, 0.7)))
    key = jax.random.key(0)
    return aide.estimate(key, gold, target, num_gold=120, num_target=120, progress=False)


RESULTS = {
    "errors in a table": lambda: compare_estimates(
        dict.fromkeys((NAME, "b"), _with_outputs()), 0.5
    ),
    "sweep": _sweep,
    "data sweep": _data_sweep,
    "tuned": _tuned,
    "gold standard": _gold,
    "draws difference": _draws_difference,
    "score check": _score_check,
    "diagnosis": _diagnosis,
    "estimate": _estimate,
    "infinite": lambda: estimate_with(np.r_[np.inf, NOISE], NOISE, names=("gold", NAME)),
    "comparison": lambda: compare_estimates({NAME: _estimate(), "far": _estimate(5.0)}, 1.0),
    "no tolerance": lambda: compare_estimates({NAME: _estimate()}),
    "errors": _errors,
    "repair": lambda: _errors().repair,
    "sandwich": lambda: Sandwich(0.1, math.inf, 0.9, False, True),
    "contrast": lambda: Contrast(NAME, Mean(1.0, 0.1), Mean(1.5, math.inf)),
    "convergence": _convergence,
    "audit": _audit,
    "simulated": _simulated,
    "check": _check,
    "kernel": _kernel,
}
