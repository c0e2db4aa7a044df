"""From what runs showed of their steps to one line per step."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from aide._core.versions import ObservedSteps


class StepDiagnosis(NamedTuple):
    r"""One step, over all runs; `None` for what the algorithm has not.

    Attributes:
        step: Its number; the start of an algorithm with weights is step 0.
        temperature: Temperature at which the kernel moved.
        acceptance: Share of proposals that were accepted; of a kernel that is several in a row, by
            the one that accepts least.
        relative_ess: Effective share of the particles after the step, the mean over runs; with one
            particle, of the runs: $(\sum \hat p)^2/(n \sum \hat p^2)$.
        num_ancestors: First particles that have descendants, the mean over runs.
        one_ancestor: Share of the runs in which all particles descend from one.
        jump: $E(y_j - x_j)^2 / 2\,\mathrm{var}(y_j)$, the mean over coordinates $j$: 1 if a step
            forgets where it came from, 0 if nothing moves.
    """

    step: int
    temperature: float | None
    acceptance: float | None
    relative_ess: float | None
    num_ancestors: float | None
    one_ancestor: float | None
    jump: float | None


def summarise_steps(segments: Sequence[ObservedSteps]) -> tuple[StepDiagnosis, ...]:
    """One line per step; arrays of `segments` have a leading axis of runs, then one of steps."""
    lines = list[StepDiagnosis]()
    has_start = segments[0].log_evidence is not None
    for segment in segments:
        jumps = _jumps(segment)
        ess = segment.relative_ess
        if ess is None and segment.log_evidence is not None:
            ess = _ess_of_runs(np.asarray(segment.log_evidence))[None]
        columns = (segment.temperature, segment.acceptance, ess, segment.num_ancestors)
        means = [None if column is None else np.mean(column, axis=0) for column in columns]
        means[1] = None if means[1] is None else means[1].min(axis=1)
        alone = segment.num_ancestors
        means.append(None if alone is None else np.mean(np.asarray(alone) == 1, axis=0))
        means.append(jumps)
        num = max((len(mean) for mean in means if mean is not None), default=0)
        for place in range(num):
            cells = [None if mean is None else float(mean[place]) for mean in means]
            number = len(lines) + (0 if has_start else 1)
            lines.append(StepDiagnosis(number, *cells))
    return tuple(lines)


def _jumps(segment: ObservedSteps) -> Float[np.ndarray, " T"] | None:
    """Relative squared jumps; `None` where nothing is known, 0 where no coordinate varies."""
    moments = (segment.squared_jump, segment.mean, segment.mean_square)
    if any(part is None for part in moments):
        return None
    jump, mean, square = (np.mean(np.asarray(part), axis=0) for part in moments)
    variance = square - mean**2
    varies = variance > 1e-12 * np.maximum(square, 1e-300)
    ratios = np.divide(jump, 2 * variance, out=np.zeros_like(jump), where=varies)
    return ratios.sum(axis=1) / np.maximum(varies.sum(axis=1), 1)


def _ess_of_runs(log_evidence: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " T"]:
    peak = log_evidence.max(axis=0)
    weights = np.exp(log_evidence - np.where(np.isfinite(peak), peak, 0.0))
    total = np.sum(weights, axis=0) ** 2
    squares = len(weights) * np.sum(weights**2, axis=0)
    return np.divide(total, squares, out=np.zeros_like(total), where=squares > 0)
