"""What a kernel check found, in words."""

from dataclasses import dataclass
from typing import Any

from aide.checking.kernel.laws import LawTest
from aide.checking.kernel.start import Start

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
class KernelCheck:
    """The outcome of `aide.check_kernel`.

    Attributes:
        verdict: `passed`, `rejected` or `inconclusive`.
        p_value: Chance of so large a deviation if all laws hold, over all functions and laws.
        false_alarm: The p-value below which a kernel is rejected.
        reversal: The test of detailed balance, or of the claimed reversal; `None` if none is
            claimed.
        invariance: The test of invariance.
        start: What the start allows to see.
        num_runs: Fresh runs that were judged, after the pilots that chose the functions.
        name: The kernel.
    """

    verdict: str
    p_value: float
    false_alarm: float
    reversal: LawTest | None
    invariance: LawTest
    start: Start
    num_runs: int
    name: str

    @property
    def passed(self) -> bool:
        """Whether nothing was found, from a start that would have shown it."""
        return self.verdict == "passed"

    @property
    def tests(self) -> tuple[LawTest, ...]:
        """All laws that were tested."""
        return (self.invariance,) if self.reversal is None else (self.reversal, self.invariance)

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline."""
        found = [(CLAIMS[test.law][0], self._words(test)) for test in self.tests]
        start = self.start
        found.append(
            (
                "runs",
                f"{self.num_runs:,}, worth {start.effective_runs:,.0f} draws from "
                f"the density; {start.moved:.0%} of the steps moved",
            )
        )
        if start.flaw is not None:
            found.append(
                ("start", f"{start.flaw}: use a start closer to the density and wider than it")
            )
        if start.moved == 0.0:
            found.append(("note", "the kernel never moved: every density is invariant then"))
        if self.verdict == "rejected":
            found.append(("causes", self._causes()))
        if self.reversal is None:
            found.append(("note", "no reversal was claimed, so none was tested"))
        return [*found, ("reading", CANNOT_SEE)]

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
            return f"{wrong}: {_show(test.p_value)}, {seen}"
        return f"nothing against '{right}' ({_show(test.p_value)})"

    @property
    def headline(self) -> str:
        """One line."""
        rate = f"false alarms: {self.false_alarm:g}"
        return (
            f"Kernel check of {self.name}: {self.verdict.upper()}, {_show(self.p_value)}   ({rate})"
        )

    def __repr__(self) -> str:
        lines = [f"  {name:<12} {text}" for name, text in self.rows()]
        return "\n".join([self.headline, *lines])

    def __rich__(self) -> Any:
        from rich.markup import escape
        from rich.table import Table

        colour = {"passed": "green", "rejected": "red"}.get(self.verdict, "yellow")
        title = f"[{colour}]{escape(self.headline)}[/]"
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in self.rows():
            table.add_row(name, escape(text))
        return table


def _show(p_value: float) -> str:
    return "p < 1e-300" if p_value < 1e-300 else f"p = {p_value:.2g}"
