"""What would make an expert stop, in sentences. Another one is one more function here."""

from collections.abc import Sequence

import numpy as np

from aide.diagnosing.steps import StepDiagnosis

LEAST_ACCEPTANCE = 0.15
"""Kernels that accept less hardly move."""
MOST_SCATTER = 1.0
"""Nats by which a log evidence may differ from run to run before an expert would stop."""
LONGEST_GAP = 3
"""Steps between two that belong to one stretch."""


def step_words(steps: Sequence[StepDiagnosis], num_runs: int) -> tuple[str, ...]:
    """Sentences about steps: kernels that hardly accept, populations of one ancestor."""
    return (*_rejections(steps), *_one_ancestor(steps, num_runs))


def scatter_of(log_evidence: np.ndarray) -> float:
    """Standard deviation of the log evidence between runs; infinite if it is -inf in some."""
    finite = np.isfinite(log_evidence).all()
    return float(np.std(log_evidence, ddof=1)) if finite else np.inf


def is_stuck(step: StepDiagnosis) -> bool:
    """Whether its kernel accepts too little."""
    return step.acceptance is not None and step.acceptance < LEAST_ACCEPTANCE


def _rejections(steps: Sequence[StepDiagnosis]) -> list[str]:
    """One sentence per stretch of steps; a step or two above the limit do not end it."""
    stretches = list[list[StepDiagnosis]]()
    for step in filter(is_stuck, steps):
        if not stretches or step.step - stretches[-1][-1].step > LONGEST_GAP:
            stretches.append([])
        stretches[-1].append(step)
    return [
        f"The kernel accepts {np.mean([step.acceptance or 0.0 for step in part]):.1%} of its "
        f"proposals {_where(part)}: take smaller steps there (a kernel per step: "
        "aide.kernels.stack_kernels)."
        for part in stretches
    ]


def _one_ancestor(steps: Sequence[StepDiagnosis], num_runs: int) -> list[str]:
    """From when on more than half of the runs have one ancestor, up to the end."""
    late = list[StepDiagnosis]()
    for step in reversed(steps):
        if step.one_ancestor is None or step.one_ancestor <= 0.5:
            break
        late.insert(0, step)
    if not late:
        return []
    runs = round((late[-1].one_ancestor or 0.0) * num_runs)
    return [
        f"From step {late[0].step} on all particles descend from one ancestor (at the end in "
        f"{runs} of {num_runs} runs): use more particles, weights that vary less, or resample "
        "less often."
    ]


def scatter_words(log_evidence: np.ndarray | None) -> list[str]:
    """A sentence about the evidence, if it scatters or is 0."""
    if log_evidence is None:
        return []
    dead = int(np.sum(log_evidence == -np.inf))
    if dead:
        return [
            f"In {dead} of {log_evidence.size} runs all weights are zero: no particle reaches the "
            "posterior. Use more particles, or a start with heavier tails."
        ]
    scatter = scatter_of(log_evidence)
    if scatter <= MOST_SCATTER:
        return []
    return [
        f"Log evidence varies by {scatter:.1f} nats between runs (standard deviation): use more "
        "particles, or smaller changes from step to step (more temperatures, better proposals)."
    ]


def _where(part: Sequence[StepDiagnosis]) -> str:
    first, last = part[0], part[-1]
    steps = f"step {first.step}" if first is last else f"steps {first.step} to {last.step}"
    if first.temperature is None or last.temperature is None:
        return f"in {steps}"
    if first is last:
        return f"at temperature {first.temperature:.2g} ({steps})"
    return f"at temperatures {first.temperature:.2g} to {last.temperature:.2g} ({steps})"
