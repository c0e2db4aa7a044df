"""Which reverse model serves an algorithm best: a contest decided by runs that nobody has seen."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import TARGET
from aide._core.types import Key
from aide.learned.fitting.families import state_size
from aide.learned.fitting.learn import learn_reverse
from aide.learned.fitting.learn_tilted import can_tilt, learn_tilted
from aide.learned.fitting.reverse_fit import ReverseFit
from aide.learned.records.recording import Recorder
from aide.running.pairs import run_pairs

FEWEST_DIMENSIONS = 5
"""Below, mixtures learn every shape from a few thousand pilots."""
MOST_DIMENSIONS = 20
"""Above, mixtures along an annealing path cost minutes and nats: they do not compete."""
NUM_RUNS = 64
TIGHT = 0.1
"""Nats of looseness, on the safe side, with which a tilted model wins without a contest."""


class Verdict(NamedTuple):
    r"""How a fit does on fresh runs.

    Attributes:
        log_likelihood: Mean $\log\xi$ of fresh meta-inference at outputs: a lower bound on
            $E[\log q(x)]$, which the better model comes nearer to.
        looseness: What that of the true trace is above it, plus one standard error.
    """

    log_likelihood: float
    looseness: float


def learn_best(
    key: Key,
    recorder: Recorder,
    build: Callable[[ReverseFit], InferenceAlgorithm],
    *,
    num_pilots: int | None,
    num_components: int | None,
    log_z: float | None,
    progress: bool | None,
) -> ReverseFit:
    """Learn a tilted model where it may serve, another one where that may be better.

    Unless the first is tight: one with powers of the densities, for runs that lag far behind; then
    a mixture or table. `build` makes an algorithm of a fit, with the reverse particles that are
    asked for. Whoever states `num_components` wants Gaussians.
    """
    transitions = recorder.transitions
    size, changes = state_size(transitions.initial), transitions.inputs is not None
    effort = {"num_pilots": num_pilots, "num_components": num_components, "log_z": log_z}
    learn_mixture = lambda: learn_reverse(key, recorder, **effort, progress=progress)
    if num_components is not None or size < FEWEST_DIMENSIONS or not can_tilt(transitions):
        return learn_mixture()
    key_tilted, key_runs, key_power = (jax.random.fold_in(key, number) for number in (2, 3, 4))
    pilots = {"num_pilots": num_pilots, "progress": progress}
    learners = {
        "tilted": lambda: learn_tilted(key_tilted, recorder, **pilots),
        "power": lambda: learn_tilted(key_power, recorder, **pilots, with_power=True),
        "mixture": learn_mixture,
    }
    if changes and size > MOST_DIMENSIONS:
        del learners["mixture"]
    found = dict[str, tuple[Verdict, ReverseFit]]()
    for name, learn in learners.items():
        fit = learn()
        found[name] = _judge(key_runs, build(fit)), fit
        if found[name][0].looseness <= TIGHT:
            break
    _, best = max(found.values(), key=lambda one: one[0].log_likelihood)
    scores = {name: verdict.log_likelihood for name, (verdict, _) in found.items()}
    scores = scores if len(scores) > 1 else {}
    return dataclasses.replace(best, held_out={**best.held_out, **scores})


def _judge(key: Key, algorithm: InferenceAlgorithm) -> Verdict:
    own, fresh = run_pairs(key, algorithm, TARGET, NUM_RUNS)
    if not np.isfinite(fresh).all():
        return Verdict(-np.inf, np.inf)
    gap = own - fresh
    loose = gap.mean() + gap.std(ddof=1) / NUM_RUNS**0.5
    return Verdict(float(fresh.mean()), float(loose))
