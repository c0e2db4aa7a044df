"""The result of an audit in words: shown, not shown."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aide.auditing.simulated import Simulated
from aide.comparing.columns import total_looseness
from aide.engine.programs.identity import Identity
from aide.estimation.closeness import LEVEL, Closeness
from aide.estimation.sandwich.sandwich import MIN_RUNS
from aide.estimation.summary import Estimate
from aide.reporting.figures import PanelGrid, plot_limits
from aide.reporting.numbers import (
    FAILED,
    PASSED,
    UNDECIDED,
    Verdict,
    all_of,
    in_nats,
    rounded_up,
    with_error,
)
from aide.reporting.result import Result


@dataclass(frozen=True)
class AuditTest:
    """One comparison of the gold standard with a version of itself.

    Attributes:
        name: The version with which the gold standard was compared.
        estimate: AIDE between both.
        closeness: Limits of the divergence, and the tolerance.
    """

    name: str
    estimate: Estimate
    closeness: Closeness

    @property
    def upper(self) -> float:
        """Upper confidence limit of the divergence, not counting `Estimate.unseen` outputs."""
        return self.closeness.upper

    @property
    def lower(self) -> float:
        """Lower confidence limit by a classifier, where the upper limit does not decide; else 0."""
        return self.closeness.lower

    @property
    def outcome(self) -> Verdict:
        """`passed` (the two agree to within the tolerance), `failed` or `undecided`, at 95%."""
        return self.closeness.outcome

    @property
    def words(self) -> str:
        """The outcome in a sentence."""
        value = with_error(self.estimate.value, self.estimate.std_error)
        name, tolerance = self.name, self.closeness.tolerance
        if self.outcome == PASSED:
            off, unseen = self.estimate.total_variation(LEVEL), max(self.estimate.unseen(LEVEL))
            return (
                f"It agrees with {name}: with 95% confidence their divergence is below "
                f"{in_nats(rounded_up(self.upper))}, not counting regions of less than "
                f"{unseen:.1%} probability, which these runs cannot rule out, and any probability "
                f"differs by at most {rounded_up(off)}."
            )
        if self.outcome == FAILED:
            return (
                f"It disagrees with {name}: with 95% confidence their divergence is above "
                f"{in_nats(self.lower, 2)} (AIDE's bound is {value}). One of the two is wrong."
            )
        more = f" ({MIN_RUNS} or more for a lower limit)" if self.closeness.lacks else ""
        slack = total_looseness(self.estimate) or 0.0
        return (
            f"Whether it agrees with {name} to within {in_nats(tolerance)} is undecided: with 95% "
            f"confidence their divergence is above {in_nats(self.lower, 2)}; AIDE's bound is "
            f"{value}, of which looseness at their own outputs is {slack:.2g}. Raise num_meta, "
            f"the budget or num_runs{more}."
        )


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """The outcome of `aide.audit`.

    Attributes:
        tests: The comparisons.
        simulated: Results on simulated data, if there are any.
        tolerance: Largest disagreement in nats that is good enough.
        untested: Tests that were not made, and how to make them.
        name: The gold standard.
        identity: The identity of the gold standard; an estimate with another one refuses the audit.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> found = aide.audit(0, aide.sir(prior, log_joint, num_particles=100), num_runs=100)
        >>> found.verdict
        'passed'
    """

    tests: tuple[AuditTest, ...]
    simulated: Simulated | None
    tolerance: float
    untested: tuple[str, ...]
    name: str
    identity: Identity

    @property
    def provenance(self) -> str:
        """The verdict in a line, for estimates: `aide.estimate(..., audit=)`."""
        against = [test.name for test in self.tests]
        against += [] if self.simulated is None else ["exact draws on simulated data"]
        text = f"audit {self.verdict} at {in_nats(self.tolerance)}"
        return f"{text}, against {', '.join(against)}" if against else text

    @property
    def doubts(self) -> tuple[str, ...]:
        """Doubts about the gold standard, for estimates; none if it passed."""
        return () if self.passed else (self.provenance,)

    @property
    def verdict(self) -> Verdict:
        """`passed` if all versions agree, `failed` if one disagrees, otherwise `undecided`."""
        return all_of([*(test.outcome for test in self.tests), self._simulated_outcome()])

    @property
    def passed(self) -> bool:
        """Whether all versions agree to within the tolerance."""
        return self.verdict == PASSED

    @property
    def shown(self) -> tuple[str, ...]:
        """The outcomes of all tests in words."""
        found = [test.words for test in self.tests]
        if self.simulated is not None:
            result = self.simulated
            if result.consistent:  # otherwise its numbers are about no posterior
                found.append(_simulated_words(result))
            found += list(result.notes)
        return tuple(found)

    @property
    def not_shown(self) -> tuple[str, ...]:
        """Questions that no test here can answer."""
        found = [
            "A mode that none of these versions visits: they agree with each other about the rest.",
            "A log density that describes another model than you mean: all versions share it.",
        ]
        if self.simulated is None:
            found.append(
                "How far it is from the exact posterior: aide.audit_simulated shows that, on data "
                "simulated from the model."
            )
        else:
            found.append("What happens on real data that the model would not have produced.")
        return (*found, *(f"{text}." for text in self.untested))

    @property
    def headline(self) -> str:
        """The verdict and the tolerance on one line."""
        return f"Audit of {self.name}: {self.verdict} at a tolerance of {in_nats(self.tolerance)}"

    def rows(self) -> list[tuple[str, str]]:
        """The outcomes, and the limits of the audit."""
        return [("shown", text) for text in self.shown] + [
            ("not shown", text) for text in self.not_shown
        ]

    def numbers(self) -> dict[str, Any]:
        """The tolerance, and the number of tests."""
        return {"tolerance": self.tolerance, "num_tests": len(self.tests)}

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per test; limits at 95%."""
        return [
            {
                "test": test.name,
                "outcome": test.outcome,
                "value": test.estimate.value,
                "std_error": test.estimate.std_error,
                "lower": test.lower,
                "upper": test.upper,
            }
            for test in self.tests
        ]

    def layout(self) -> PanelGrid:
        """A line of its own for every test."""
        return PanelGrid(size=(6.4, 1.2 + 0.35 * len(self.tests)))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the limits of every test, and the tolerance."""
        limits = [(test.lower, test.upper) for test in self.tests]
        values = [test.estimate.value for test in self.tests]
        names = [test.name for test in self.tests]
        plot_limits(panels[0], names, limits, values, self.tolerance)
        panels[0].set_xlabel("divergence (nats), 95%")

    def _simulated_outcome(self) -> Verdict:
        if self.simulated is None:
            return PASSED
        if not self.simulated.consistent:
            return FAILED
        low, high = self.simulated.interval(LEVEL)
        if high <= self.tolerance:
            return PASSED
        is_exact = abs(self.simulated.looseness.value) < 1e-9
        return FAILED if is_exact and low > self.tolerance else UNDECIDED


def _simulated_words(result: Simulated) -> str:
    high, off = result.interval(LEVEL)[1], result.total_variation(LEVEL)
    return (
        f"With 95% confidence (from {result.num_datasets} data sets) the divergence from the exact "
        f"posterior is below {in_nats(rounded_up(high))} on average over data simulated from the "
        f"model, not counting {result.unseen(LEVEL):.1%} of the data sets, draws and outputs; any "
        f"probability differs by at most {rounded_up(off)} on average."
    )
