"""Gold standards for state-space models: a particle filter over whole paths, tuned."""

import jax
import numpy as np

from aide._core.algorithm import Aside, InferenceAlgorithm
from aide._core.types import GOLD, Key
from aide._core.versions import budget_version
from aide.algorithms.particle_filter import ParticleFilter, Proposal, StateSpaceModel
from aide.engine.runners.choose import run_pairs
from aide.gold_standards.annealed import SIZING_SHARE
from aide.gold_standards.budget import Goal, now
from aide.gold_standards.result import GoldStandard, Making
from aide.gold_standards.sizing import NUM_RUNS, choose_size
from aide.gold_standards.testing import run_tests
from aide.reporting.numbers import in_nats
from aide.smc.policy import AbstractResampler, EssBelow, EveryStep

NUM_TRIAL = 100
"""Particles with which proposals and resamplers are tried."""
RESAMPLERS: dict[str, AbstractResampler] = {
    "systematic at every step": EveryStep("systematic"),
    "systematic when half of the effective sample size is gone": EssBelow(0.5, "systematic"),
}


def make_filtered(
    key: Key,
    model: StateSpaceModel,
    proposals: tuple[Proposal, ...],
    goal: Goal,
    progress: bool | None,
) -> GoldStandard:
    """Try all proposals and resamplers with few particles, then find how many it takes."""
    begun = now()
    key_try, key_size, key_test = jax.random.split(key, 3)
    names = ["the model's own transition", *(f"proposal {i + 1}" for i in range(len(proposals)))]
    tried = dict[tuple[str, str], tuple[float, ParticleFilter]]()
    for name, proposal in zip(names, (None, *proposals), strict=True):
        for how, resampler in RESAMPLERS.items():
            one = ParticleFilter(model, NUM_TRIAL, proposal, resampler)
            tried[name, how] = (run_pairs(key_try, one, GOLD, NUM_RUNS).looseness, one)
    (name, how), (found, best) = min(tried.items(), key=lambda item: item[1][0])
    num_steps = model.num_steps
    guess = max(NUM_TRIAL, int(np.ceil(NUM_TRIAL * min(found, 20.0) / goal.looseness)))

    def build(num: int) -> ParticleFilter:
        label = f"particle filter, {num:,} particles"
        return ParticleFilter(model, num, best.proposal, best.resampler, label)

    most = goal.budget.part(SIZING_SHARE * goal.budget.evaluations)
    sizing = choose_size(key_size, build, guess, goal.looseness, float(num_steps), most)
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
    tested = run_tests(key_test, algorithm, half, versions, (spent, cost), progress, goal.budget)
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
