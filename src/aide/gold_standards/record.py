"""The making of a gold standard and the results of its tests, as data that JSON can hold."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from aide.diagnosing.steps import StepDiagnosis
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, in_nats, with_error
from aide.reporting.result import as_data

MOST_SCATTER = 0.5
"""Largest accepted standard deviation of the log evidence between runs, in nats: a choice."""
EXPLAINED = 3.0
"""Largest accepted ratio of the variance of the log evidence to the looseness: a choice."""
SLACK = 0.05
"""Variance of the log evidence, in nats squared, allowed on top of that ratio: a choice."""


@dataclass(frozen=True)
class Agreement:
    """AIDE between the gold standard and another version of itself.

    Attributes:
        name: The other version, in words.
        value: The bound, in nats.
        std_error: Standard error of the bound.
        upper: Upper limit of the divergence at 95%, in nats.
        outcome: `passed` (they agree to within 0.5 nats), `failed` or `undecided`; undecided, with
            infinite numbers, if an error ended the comparison.
        left_out: Share of either algorithm's outputs that may be of a kind that no run shows (95%).

    Example:
        >>> other = aide.gold_standards.Agreement("twice the budget", 0.012, 0.01, 0.04, "passed")
        >>> other.words
        'agrees with twice the budget (0.012 ± 0.010 nats)'
    """

    name: str
    value: float
    std_error: float
    upper: float
    outcome: str
    left_out: float = 0.0

    @property
    def words(self) -> str:
        """The outcome in a few words."""
        if self.outcome == UNDECIDED and np.isinf(self.std_error):
            return f"could not be compared with {self.name}"
        verbs: dict[str, str] = {PASSED: "agrees", FAILED: "disagrees"}
        verb = verbs.get(self.outcome, "was not shown to agree")
        value = with_error(self.value, self.std_error)
        left_out = f", up to {self.left_out:.1%} of the outputs left out" if self.left_out else ""
        return f"{verb} with {self.name} ({value} nats{left_out})"


@dataclass(frozen=True)
class Record:
    """The making of a gold standard, and the results of fresh runs.

    Attributes:
        title: The gold standard in a line.
        goal: Largest accepted looseness, in nats.
        chosen: Name and text of everything that was chosen.
        looseness: Looseness in fresh runs, with its standard error, in nats.
        log_evidence: Log evidence in fresh runs, with its standard error, in nats.
        scatter: Standard deviation of the log evidence between runs, in nats.
        agreements: Comparisons with other versions of the gold standard.
        remarks: What would make an expert stop, and what failed.
        steps: One line per step: temperature, acceptance, effective sample size, ancestors, jump.
        num_evaluations: Evaluations of the log density or its gradient, in all and by one run.
        seconds: Wall time of the making.
        objections: Reasons why the gold standard does not pass, besides its numbers: tests that
            could not be made, and what pilots showed.

    Example:
        >>> other = aide.gold_standards.Agreement("twice the budget", 0.012, 0.01, 0.04, "passed")
        >>> facts = {"goal": 0.05, "chosen": (), "scatter": 0.1, "agreements": (other,)}
        >>> measured = {"looseness": (0.02, 0.005), "log_evidence": (-3.1, 0.02)}
        >>> record = aide.gold_standards.Record("tempered SMC", **facts, **measured)
        >>> record.passed, aide.gold_standards.Record.from_json(record.to_json()) == record
        (True, True)
    """

    title: str
    goal: float
    chosen: tuple[tuple[str, str], ...]
    looseness: tuple[float, float]
    log_evidence: tuple[float, float]
    scatter: float
    agreements: tuple[Agreement, ...]
    remarks: tuple[str, ...] = ()
    steps: tuple[StepDiagnosis, ...] = field(default=(), repr=False)
    num_evaluations: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    objections: tuple[str, ...] = ()

    @property
    def tested(self) -> bool:
        """Whether fresh runs came to an end."""
        return bool(np.isfinite(self.log_evidence[1]))

    @property
    def reached(self) -> bool:
        """Whether the looseness is at most the goal, within two standard errors."""
        value, error = self.looseness
        return self.tested and value - 2 * error <= self.goal

    @property
    def contradictions(self) -> tuple[str, ...]:
        r"""Sentences on log evidence that varies too much, or more than the looseness explains.

        If an algorithm draws from the posterior, the variance of $\log\gamma(x) - \log\xi$ is
        about the looseness: both are the variance of $\log\xi$ given $x$. Excess variance comes
        from outputs whose probability is wrong.
        """
        if not self.tested:
            return ()
        value, error = self.looseness
        words = f"the log evidence scatters by {in_nats(self.scatter, 2)} from run to run"
        if not self.scatter <= MOST_SCATTER:
            return (f"{words}, {MOST_SCATTER:g} at most would do",)
        if self.scatter**2 > EXPLAINED * (value + 2 * error) + SLACK:
            return (
                f"{words}, which a looseness of {with_error(value, error)} nats does not explain "
                f"(it stands for {value**0.5:.2g}): a few runs reach what the others miss",
            )
        return ()

    @property
    def passed(self) -> bool:
        """Whether there is no doubt: the goal is reached, and all versions agree."""
        return not self.doubts

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons against taking the gold standard for the posterior; empty if it passed."""
        found = [one.words for one in self.agreements if one.outcome != PASSED]
        if not self.reached:
            loose = with_error(*self.looseness)
            short = f"its looseness is {loose} nats, {self.goal:g} were asked for"
            found.insert(0, short if self.tested else "none of its tests came to an end")
        if not self.agreements:
            found.append("there was no other version of it to compare it with")
        return (*found, *self.contradictions, *self.objections)

    def to_json(self) -> str:
        """The record as JSON."""
        data = {**asdict(self), "steps": [step._asdict() for step in self.steps]}
        return json.dumps(as_data(data), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> "Record":
        """Read JSON; numbers that are not finite are the texts `inf`, `-inf` and `nan`."""
        data: dict[str, Any] = json.loads(text, object_hook=_numbers)
        data["steps"] = [StepDiagnosis(**one) for one in data["steps"]]
        data["agreements"] = [Agreement(**one) for one in data["agreements"]]
        return Record(**{name: _as_tuples(value) for name, value in data.items()})


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _numbers(data: dict[str, Any]) -> dict[str, Any]:
    as_number = lambda value: float(value) if value in ("inf", "-inf", "nan") else value
    return {
        name: [as_number(v) for v in value] if isinstance(value, list) else as_number(value)
        for name, value in data.items()
    }
