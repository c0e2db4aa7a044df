"""The result of a kernel check in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aide.checking.kernel.laws import LawTest
from aide.checking.kernel.runs import StartQuality
from aide.reporting.figures import plot_p_values
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict
from aide.reporting.numbers import p_value as p_text
from aide.reporting.result import Result

CLAIMS = {
    "reversible": ("is reversible for this density", "is not reversible for this density"),
    "reversal": ("is undone by its reversal", "is not undone by its reversal"),
    "invariance": ("leaves this density invariant", "does not leave this density invariant"),
}
NEVER_SHOWN = (
    "Whether the kernel gets everywhere (a kernel that never moves passes), how fast it mixes, and "
    "errors where the start has no mass."
)


@dataclass(frozen=True, repr=False)
class KernelCheck(Result):
    """The outcome of `aide.check_kernel`.

    Attributes:
        p_value: Probability of so large a deviation if all laws hold, over all functions and laws.
        false_alarm: The p-value below which a kernel is rejected.
        reversal: The test of detailed balance, or of the claimed reversal; `None` if none is
            claimed.
        invariance: The test of invariance.
        start: The quality of the start.
        num_runs: Fresh runs that were tested, after the pilots that chose the functions.
        name: The name of the kernel.

    Example:
        >>> normal, kernel = Normal(0.0, 1.0), aide.kernels.RandomWalk(1.0)
        >>> found = aide.check_kernel(0, kernel, normal.log_prob, Normal(0.0, 2.0), num_runs=2000)
        >>> found.p_value > found.false_alarm
        True
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
        """`passed`, `failed`, or `undecided` (no law is broken, but the start has a flaw)."""
        if self.p_value < self.false_alarm:
            return FAILED
        return PASSED if self.start.flaw is None else UNDECIDED

    @property
    def passed(self) -> bool:
        """Whether no law is broken, and the start has no flaw."""
        return self.verdict == PASSED

    @property
    def tests(self) -> tuple[LawTest, ...]:
        """All laws that were tested."""
        return (self.invariance,) if self.reversal is None else (self.reversal, self.invariance)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline, notes apart."""
        found = [(test.law, self._words(test)) for test in self.tests]
        start = self.start
        worth = f"{self.num_runs:,} runs are worth {start.effective_runs:,.0f} independent draws"
        text = f"{worth} from the density; the kernel moved in {start.moved:.0%} of its steps."
        found.append(("runs", text))
        if start.flaw is not None:
            flaw = f"{start.flaw}. Use a start closer to the density and wider than it."
            found.append(("start", f"{flaw[0].upper()}{flaw[1:]}"))
        if self.verdict == FAILED:
            found.append(("causes", self._causes()))
        return [*found, ("not shown", NEVER_SHOWN)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Limits of this check."""
        found = []
        if self.start.moved == 0.0:
            found.append("The kernel never moved: then every density is invariant.")
        if self.reversal is None:
            found.append("No reversal was claimed, so none was tested.")
        return tuple(found)

    def _causes(self) -> str:
        limit = self.false_alarm / len(self.tests)
        invariant = self.invariance.p_value >= limit
        if self.reversal is not None and invariant:
            return (
                "Nothing speaks against invariance, so look at the reversal: that of a sweep runs "
                "its parts in reverse order (pass reversal=, or reversal=False if none is needed)."
            )
        return (
            "Usual causes: no accept step, a missing ratio of proposal densities or Jacobian, "
            "another temperature or density than this one."
        )

    def _words(self, test: LawTest) -> str:
        right, wrong = CLAIMS[test.law]
        if test.p_value < self.false_alarm / len(self.tests):
            seen = f"{test.z:+.1f} standard errors in {test.function}"
            return f"The kernel {wrong}: {p_text(test.p_value)}, {seen}."
        return f"Nothing speaks against the claim that the kernel {right} ({p_text(test.p_value)})."

    @property
    def headline(self) -> str:
        """The verdict, the p-value and the rate of false alarms on one line."""
        rate = f"a correct kernel fails with probability {self.false_alarm:g} at most"
        return f"Kernel check of {self.name}: {self.verdict} ({p_text(self.p_value)}; {rate})"

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

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the p-value of every law."""
        level = self.false_alarm / len(self.tests)
        names = [test.law for test in self.tests]
        plot_p_values(panels[0], names, [test.p_value for test in self.tests], level)
