"""What a run of an algorithm shows of its steps, for `aide.diagnose`."""

from typing import NamedTuple

from jaxtyping import Array, Float, Int

from aide._core.types import LogProb, Value


class ObservedMove(NamedTuple):
    """One particle moved, and how.

    Attributes:
        value: Where it is.
        log_weight: The move's log weight.
        acceptance: Share of proposals that were accepted, by each part of the kernel; `None` where
            nothing is proposed.
        squared_jump: Squared distance of every coordinate; `None` for a move to another space.
        temperature: That of the density which the kernel leaves invariant; `None` off a path.
    """

    value: Value
    log_weight: LogProb
    acceptance: Float[Array, " parts"] | None = None
    squared_jump: Float[Array, " d"] | None = None
    temperature: Float[Array, ""] | None = None


class ObservedSteps(NamedTuple):
    r"""Some steps of one run, of one kind; a leading step axis $T$ everywhere.

    What does not exist is `None`: weights of a chain, ancestors of one particle, proposals of a
    filter.

    Attributes:
        log_evidence: $\log\hat p$ after the step.
        relative_ess: $(\sum_i w_i)^2 / (P \sum_i w_i^2)$ of the particles after the step.
        num_ancestors: How many first particles have descendants after the step.
        acceptance: Share of proposals that were accepted, by each part of the kernel.
        temperature: Temperature at which the kernel moved.
        squared_jump: Mean squared distance of every coordinate.
        mean: Mean of every coordinate, after the step.
        mean_square: Mean square of every coordinate.
    """

    log_evidence: Float[Array, " T"] | None = None
    relative_ess: Float[Array, " T"] | None = None
    num_ancestors: Int[Array, " T"] | None = None
    acceptance: Float[Array, "T parts"] | None = None
    temperature: Float[Array, " T"] | None = None
    squared_jump: Float[Array, "T d"] | None = None
    mean: Float[Array, "T d"] | None = None
    mean_square: Float[Array, "T d"] | None = None
