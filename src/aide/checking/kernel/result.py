"""What a kernel check found, in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aide.checking.kernel.laws import LawTest
from aide.checking.kernel.start import StartQuality
from aide.reporting.figures import plot_p_values
from aide.reporting.numbers import p_value as p_text
from aide.reporting.result import Result
from aide.reporting.verdict import FAILED, PASSED, UNDECIDED, Verdict

CLAIMS = {
    "reversible": ("reversible", "is reversible for this density", "is not reversible for it"),
    "reversal": ("reversal", "its reversal reverses it", "its reversal does not reverse it"),
    "invariance": ("invariance", "leaves this density invariant", "does not leave it invariant"),
}
CANNOT_SEE = (
    "Cannot see: whether the kernel gets everywhere (one that never moves passes), how fast it "
    "mixes, errors that act where the start has no mass."
)


@dataclass(frozen=True, repr=False)
class KernelCheck(Result):
    """The outcome of `aide.check_kernel`.

    Attributes:
        p_value: Chance of so large a deviation if all laws hold, over all functions and laws.
        false_alarm: The p-value below which a kernel is rejected.
        reversal: The test of detailed balance, or of the claimed reversal; `None` if none is
            claimed.
        invariance: The test of invariance.
        start: What the start allows to see.
        num_runs: Fresh runs that were judged, after the pilots that chose the functions.
        name: The kernel.
    """

    p_value: float
    false_alarm: float
    reversal: LawTest | None
    invariance: LawTest
    start: StartQuality
    num_runs: int
    name: str

    @property
    def verdict(self) -> Verdict:
        """`passed`, `failed`, or `undecided` (from a start that would not have shown much)."""
        if self.p_value < self.false_alarm:
            return FAILED
        return PASSED if self.start.flaw is None else UNDECIDED

    @property
    def passed(self) -> bool:
        """Whether nothing was found, from a start that would have shown it."""
        return self.verdict == PASSED

    @property
    def tests(self) -> tuple[LawTest, ...]:
        """All laws that were tested."""
        return (self.invariance,) if self.reversal is None else (self.reversal, self.invariance)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""
        found = [(CLAIMS[test.law][0], self._words(test)) for test in self.tests]
        start = self.start
        text = f"{self.num_runs:,}, worth {start.effective_runs:,.0f} draws from the density"
        found.append(("runs", f"{text}; {start.moved:.0%} of the steps moved"))
        if start.flaw is not None:
            flaw = f"{start.flaw}: use a start closer to the density and wider than it"
            found.append(("start", flaw))
        if self.verdict == FAILED:
            found.append(("causes", self._causes()))
        return [*found, ("reading", CANNOT_SEE)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a pass does not say here."""
        found = []
        if self.start.moved == 0.0:
            found.append("the kernel never moved: every density is invariant then")
        if self.reversal is None:
            found.append("no reversal was claimed, so none was tested")
        return tuple(found)

    def _causes(self) -> str:
        limit = self.false_alarm / len(self.tests)
        invariant = self.invariance.p_value >= limit
        if self.reversal is not None and invariant:
            return (
                "nothing speaks against invariance, so look at the reversal: that of a sweep runs "
                "its parts in reverse order (pass reversal=, or reversal=False if it is not needed)"
            )
        return (
            "usual ones: no accept step, a missing ratio of proposal densities or Jacobian, "
            "another temperature or density than this one"
        )

    def _words(self, test: LawTest) -> str:
        _, right, wrong = CLAIMS[test.law]
        if test.p_value < self.false_alarm / len(self.tests):
            seen = f"{test.z:+.1f} standard errors in {test.function}"
            return f"{wrong}: {p_text(test.p_value)}, {seen}"
        return f"nothing against '{right}' ({p_text(test.p_value)})"

    @property
    def headline(self) -> str:
        """One line."""
        outcome = f"{self.verdict}, {p_text(self.p_value)}"
        return f"Kernel check of {self.name}: {outcome}   (false alarms: {self.false_alarm:g})"

    def numbers(self) -> dict[str, Any]:
        """The numbers, by name."""
        return {
            "p_value": self.p_value,
            "false_alarm": self.false_alarm,
            "num_runs": self.num_runs,
            "effective_runs": self.start.effective_runs,
            "moved": self.start.moved,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per law."""
        return [
            {"law": test.law, "p_value": test.p_value, "z": test.z, "function": test.function}
            for test in self.tests
        ]

    def draw(self, panels: np.ndarray) -> None:
        """The p-value of every law."""
        level = self.false_alarm / len(self.tests)
        names = [CLAIMS[test.law][0] for test in self.tests]
        plot_p_values(panels[0], names, [test.p_value for test in self.tests], level)
