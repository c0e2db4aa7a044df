"""A gold standard: an algorithm like any other, with a record of its making and its tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aide._core.algorithm import Aside, Draw, InferenceAlgorithm
from aide._core.distribution import Distribution
from aide._core.types import Key, LogProb, Value
from aide._core.versions import (
    AbstractAlgorithm,
    KernelUse,
    ObservedSteps,
    Prefix,
    Version,
    budget_version,
    kernels_of,
    observed_steps,
    prefixes_of,
    small_versions,
    started_version,
)
from aide.diagnosing.steps import draw_steps, steps_grid, steps_layout
from aide.gold_standards.record import Record
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict, in_nats, with_error
from aide.reporting.result import Result


class Making(NamedTuple):
    """The making of a gold standard.

    Attributes:
        record: What was chosen, and the results of tests.
        rival: The algorithm from another start, tuned there.
        recipes: Numbers from which the algorithm and its rival are built, for `save`.
    """

    record: Record
    rival: AbstractAlgorithm | None
    recipes: tuple[Any, ...] = ()


class GoldStandard(AbstractAlgorithm, Result):
    """A tuned and tested algorithm that no longer changes; made by `aide.gold_standard`.

    Use it as any algorithm: `aide.estimate(key, gold, target)`. Its text says what was chosen, what
    tests showed and what they cannot show; `plot` draws its steps.

    Attributes:
        algorithm: The algorithm that makes the runs.
        making: The making, which plays no part in what the gold standard computes.

    Example:
        >>> prior = Normal(0.0, 3.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * ((x - 1.0) / 0.5) ** 2
        >>> gold = aide.gold_standard(0, log_joint, prior, num_pilots=100, max_looseness=0.3)
        >>> isinstance(gold, aide.gold_standards.GoldStandard), gold.record.goal
        (True, 0.3)
    """

    algorithm: AbstractAlgorithm
    making: Aside

    @property
    def underlying(self) -> AbstractAlgorithm:
        """The algorithm that makes the runs."""
        return self.algorithm

    @property
    def record(self) -> Record:
        """The making, and the results of fresh runs."""
        return self.making.content.record

    @property
    def rival(self) -> AbstractAlgorithm | None:
        """The version from another start, tuned there; `None` if there is no other start."""
        return self.making.content.rival

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.record.title

    @property
    def log_z(self) -> float | None:
        r"""$\log Z$ of the algorithm."""
        return getattr(self.algorithm, "log_z", None)

    @property
    def num_particles(self) -> int | None:
        """The number of particles of the algorithm."""
        return getattr(self.algorithm, "num_particles", None)

    @property
    def provenance(self) -> str:
        """The making and the tests in a line, for estimates."""
        record = self.record
        value, error = record.looseness
        agreed = "; ".join(one.words for one in record.agreements)
        text = f"made by aide.gold_standard: looseness {with_error(value, error)} nats"
        if not record.tested:
            text = "made by aide.gold_standard, and not tested: none of its tests came to an end"
        return f"{text}; {agreed}" if agreed else text

    @property
    def doubts(self) -> tuple[str, ...]:
        """What its tests found against the gold standard, for estimates; empty if it passed."""
        return self.record.doubts

    def simulate(self, key: Key) -> Draw:
        """Run the algorithm."""
        return self.algorithm.simulate(key)

    def regenerate(self, key: Key, value: Value) -> LogProb:
        """Run the algorithm's meta-inference."""
        return self.algorithm.regenerate(key, value)

    def shrunk(self) -> Mapping[str, InferenceAlgorithm | Version]:
        """Small versions of the algorithm."""
        return small_versions(self.algorithm)

    def with_budget(self, factor: float) -> InferenceAlgorithm | None:
        """The algorithm with a multiple of its particles."""
        return budget_version(self.algorithm, factor)

    def with_start(self, start: Distribution, label: str = "") -> InferenceAlgorithm:
        """The algorithm from another start, with the same kernels: not tuned anew."""
        return started_version(self.algorithm, start, label)

    def rivals(self) -> dict[str, InferenceAlgorithm]:
        """Versions with which an audit compares: the version from another start, tuned there."""
        return {} if self.rival is None else {"itself from another start, tuned there": self.rival}

    def prefixes(self) -> Sequence[Prefix]:
        """The algorithm after each of its moves."""
        return prefixes_of(self.algorithm)

    def kernels(self) -> Sequence[KernelUse]:
        """The kernels of the algorithm."""
        return kernels_of(self.algorithm)

    def observe_steps(self, key: Key) -> tuple[ObservedSteps, ...]:
        """Run the algorithm and observe its steps."""
        return observed_steps(self.algorithm, key)

    def save(self, path: str | Path) -> None:
        """Write the making and the tests to a file; see `aide.gold_standards.load`."""
        from aide.gold_standards.storage import save

        save(self, path)

    @property
    def headline(self) -> str:
        """The title, whether the gold standard passed or is flagged, and the time of the making."""
        record = self.record
        found = PASSED if record.passed else f"flagged as {self.verdict}"
        return f"{record.title}: {found} (made in {record.seconds:.0f} s)"

    @property
    def verdict(self) -> Verdict:
        """`passed` if the goal is reached and all versions agree; `failed` if one disagrees."""
        if any(one.outcome == FAILED for one in self.record.agreements):
            return FAILED
        return PASSED if self.record.passed else UNDECIDED

    @property
    def notes(self) -> tuple[str, ...]:
        """Shortcomings, and what to try."""
        return self.record.remarks

    def rows(self) -> list[tuple[str, str]]:
        """What was chosen, what tests showed, and what they cannot show."""
        record = self.record
        loose, (z, error) = with_error(*record.looseness), record.log_evidence
        goal = "" if record.reached else f", where {record.goal:g} were asked for"
        measured = [
            f"Fresh runs have a looseness of {loose} nats{goal}.",
            f"The log evidence is {with_error(z, error)}; it varies by "
            f"{in_nats(record.scatter, 2)} from run to run (standard deviation).",
        ]
        shown = [
            *(measured if record.tested else ["Nothing: none of its tests came to an end."]),
            *(f"It {one.words}." for one in record.agreements),
        ]
        doubts = (*record.contradictions, *record.objections)
        return [
            *record.chosen,
            *(("shown", text) for text in shown),
            *(("doubt", f"{text[:1].upper()}{text[1:].rstrip('.')}.") for text in doubts),
            ("not shown", "A mode that no start and no pilot visited."),
            ("not shown", "That the log density is the one you mean."),
        ]

    def grid(self) -> Grid | None:
        """A table of steps, evenly chosen."""
        return steps_grid(self.record.steps) if self.record.steps else None

    def records(self) -> list[dict[str, Any]]:
        """All steps, one dictionary each."""
        return [step._asdict() for step in self.record.steps]

    def numbers(self) -> dict[str, Any]:
        """Looseness, evidence and cost."""
        record = self.record
        return {
            "looseness": record.looseness[0],
            "looseness_std_error": record.looseness[1],
            "log_evidence": record.log_evidence[0],
            "log_evidence_std_error": record.log_evidence[1],
            "scatter": record.scatter,
            "goal": record.goal,
            "evaluations": record.num_evaluations[0],
            "evaluations_per_run": record.num_evaluations[1],
            "seconds": record.seconds,
        }

    def layout(self) -> PanelGrid:
        """One panel per column of the table."""
        return steps_layout(self.record.steps, "step")

    def plot_on(self, panels: np.ndarray) -> None:
        """Temperatures, acceptance, effective sample size, ancestors and jumps, by step."""
        draw_steps(panels, self.record.steps, "step")

    __repr__ = Result.__repr__
