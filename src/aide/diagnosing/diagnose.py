"""Running an algorithm a few times more, and looking at its steps."""

import jax
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, describe
from aide._core.random import as_key
from aide._core.types import Key
from aide._core.validate import check_count
from aide._core.versions import ObservedSteps, observed_steps
from aide.diagnosing.diagnosis import Diagnosis
from aide.diagnosing.steps import summarise_steps
from aide.running.call import one_call
from aide.running.map_runs import map_runs

FEWEST_RUNS, FEWEST_PARTICLES = 20, 200
"""Runs made unless stated: so many, or as many as make up so many particles."""


@one_call()
def diagnose(key: Key, algorithm: InferenceAlgorithm, *, num_runs: int | None = None) -> Diagnosis:
    r"""What every step does: acceptance, effective sample size, ancestors, jumps; and the evidence.

    For `sir`, `tempered_smc`, `ais`, `mcmc`, particle filters, `aide.smc.Smc` and what
    `aide.refine` makes of them. All numbers are counted in a few extra runs, those that `simulate`
    makes: they describe the algorithm and prove nothing about its outputs.

    Args:
        key: A JAX key.
        algorithm: The algorithm.
        num_runs: Extra runs: 20 unless stated, or as many as make up 200 particles.
    """
    stated = getattr(algorithm, "num_particles", None)
    num_particles = stated if isinstance(stated, int) else None
    if num_runs is None:
        num_runs = max(FEWEST_RUNS, -(-FEWEST_PARTICLES // (num_particles or 1)))
    check_count("num_runs", num_runs, 2)
    what = f"a run of {describe(algorithm)} that is observed step by step"
    rows = (np.arange(num_runs, dtype=np.uint32),)
    found = map_runs(_observe, algorithm, as_key(key), rows, what=what)
    last = found[-1].log_evidence
    log_evidence = None if last is None else last[:, -1]
    if log_evidence is not None and np.isnan(log_evidence).any():
        raise ValueError(
            f"the log evidence of {describe(algorithm)} is NaN in {np.isnan(log_evidence).sum()} "
            f"of {num_runs} runs: a log density returned NaN. It must be a number, or -inf where "
            "there is no mass."
        )
    steps = summarise_steps(found)
    return Diagnosis(describe(algorithm), num_particles, num_runs, steps, log_evidence)


def _observe(algorithm: InferenceAlgorithm, stream: Key, run: int) -> tuple[ObservedSteps, ...]:
    """One run as an operation of the engine."""
    return observed_steps(algorithm, jax.random.fold_in(stream, run))
