"""Gold standards for state-space models: a particle filter over whole paths, tuned."""

from collections.abc import Callable

import jax
import numpy as np

from aide._core.algorithm import Aside, InferenceAlgorithm
from aide._core.types import GOLD, Key
from aide._core.versions import budget_version
from aide.algorithms.particle_filter import ParticleFilter, Proposal, StateSpaceModel
from aide.engine.programs.programs import compile_quickly
from aide.engine.runners.choose import run_pairs
from aide.gold_standards.annealed import SIZING_SHARE
from aide.gold_standards.budget import Budget, Goal, now
from aide.gold_standards.result import GoldStandard, Making
from aide.gold_standards.sizing import MOST_ATTEMPTS, NUM_RUNS, Sizing, choose_size
from aide.gold_standards.testing import run_tests
from aide.reporting.numbers import in_nats
from aide.smc.policy import AbstractResampler, EssBelow, EveryStep

NUM_TRIAL = 100
"""Particles of the filters with which proposals and resamplers are tried: a choice."""
GROWTH_AT_RARE = 4.0
"""Factor of the number of particles where a few outputs cause the looseness: a choice."""
RESAMPLERS: dict[str, AbstractResampler] = {
    "systematic at every step": EveryStep("systematic"),
    "systematic when half of the effective sample size is gone": EssBelow(0.5, "systematic"),
}
"""Names and resamplers that are tried: usual choices."""


def make_filtered(
    key: Key,
    model: StateSpaceModel,
    proposals: tuple[Proposal, ...],
    goal: Goal,
    progress: bool | None,
) -> GoldStandard:
    """Try all proposals and resamplers with few particles, then find the number of particles."""
    begun = now()
    key_try, key_size, key_test = jax.random.split(key, 3)
    names = ["the model's own transition", *(f"proposal {i + 1}" for i in range(len(proposals)))]
    tried = dict[tuple[str, str], tuple[float, ParticleFilter]]()
    for name, proposal in zip(names, (None, *proposals), strict=True):
        for how, resampler in RESAMPLERS.items():
            one = ParticleFilter(model, NUM_TRIAL, proposal, resampler)
            with compile_quickly():
                tried[name, how] = (run_pairs(key_try, one, GOLD, NUM_RUNS).looseness, one)
    (name, how), (found, best) = min(tried.items(), key=lambda item: item[1][0])
    num_steps = model.num_steps
    guess = max(NUM_TRIAL, int(np.ceil(NUM_TRIAL * min(found, 20.0) / goal.looseness)))

    def build(num: int) -> ParticleFilter:
        label = f"particle filter, {num:,} particles"
        return ParticleFilter(model, num, best.proposal, best.resampler, label)

    most = goal.budget.part(SIZING_SHARE * goal.budget.evaluations)
    sizing = _enough_particles(key_size, build, guess, goal.looseness, float(num_steps), most)
    algorithm = build(sizing.num_particles)
    rivals = [pair for (proposal, _), pair in tried.items() if proposal != name]
    rival, versions = None, dict[str, InferenceAlgorithm]()
    if rivals:
        other = min(rivals, key=lambda pair: pair[0])
        more = float(np.clip(other[0] / max(found, 1e-3), 1.0, 4.0))
        rival = ParticleFilter(
            model,
            int(np.ceil(sizing.num_particles * more)),
            other[1].proposal,
            other[1].resampler,
            "with another proposal",
        )
        versions["itself with another proposal"] = rival
    cost = float(num_steps * sizing.num_particles)
    spent = 2.0 * NUM_RUNS * NUM_TRIAL * num_steps * len(tried) + sizing.num_evaluations
    half = budget_version(algorithm, 0.5)
    with compile_quickly(sizing.quick):
        tested = run_tests(
            key_test, algorithm, half, versions, (spent, cost), progress, goal.budget
        )
    value, error = tested.pairs.looseness, tested.pairs.std_error
    short = (
        [
            f"Looseness is {in_nats(value, 2)}, {goal.looseness:g} were asked for: pass a proposal "
            "that looks at the data (proposals=), or raise max_evaluations."
        ]
        if np.isfinite(value) and value - 2 * error > goal.looseness
        else []
    )
    title = f"Particle filter, {num_steps} steps, {sizing.num_particles:,} particles, {name}"
    chosen = (("proposal", name), ("resampling", how))
    remarks = (*tested.failures, *short, *(tested.diagnosis.notes if tested.diagnosis else ()))
    record = tested.record(title, chosen, remarks, goal.looseness, (spent, cost), begun)
    return GoldStandard(algorithm, Aside(Making(record, rival)))


def _enough_particles(
    key: Key,
    build: Callable[[int], ParticleFilter],
    guess: int,
    looseness: float,
    num_steps: float,
    budget: Budget,
) -> Sizing:
    """The number of particles that reaches the looseness, as far as the budget goes.

    `choose_size` ends where a few outputs cause the looseness, because an annealed algorithm may
    then need a longer path instead. A filter has no path to lengthen: more particles are tried.
    """
    spent = 0.0
    for attempt in range(MOST_ATTEMPTS):
        key_attempt, left = jax.random.fold_in(key, attempt), budget.evaluations - spent
        sizing = choose_size(
            key_attempt, build, guess, looseness, num_steps, budget.part(max(left, 1.0))
        )
        spent += sizing.num_evaluations
        guess = int(GROWTH_AT_RARE * sizing.num_particles)
        affordable = spent + NUM_RUNS * guess * num_steps <= budget.evaluations
        if not sizing.is_rare or not affordable or not budget.seconds_left:
            break
    return sizing._replace(num_evaluations=spent)
