"""What an audit showed, and what it could not, in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from aide._core.text import plain
from aide.auditing.simulated.result import Simulated
from aide.estimation.quantities import is_tractable
from aide.estimation.report import show
from aide.estimation.sandwich.sandwich import MIN_RUNS, what_is_missing
from aide.estimation.summary import Estimate, Mean

LEVEL = 0.95
"""With which every sentence holds; each limit alone fails with probability 2.5%."""


@dataclass(frozen=True)
class AuditTest:
    """One comparison of the gold standard with a version of itself.

    Attributes:
        name: What it was compared with.
        estimate: AIDE between the two.
        tolerance: Nats of disagreement that would do.
    """

    name: str
    estimate: Estimate
    tolerance: float

    @property
    def upper(self) -> float:
        """Upper confidence limit of the divergence, without `Estimate.unseen` outputs."""
        return max(self.estimate.interval(LEVEL)[1], 0.0)

    @property
    def lower(self) -> float:
        """Lower confidence limit, by a classifier: see `Estimate.sandwich`.

        0, which always holds, where there are too few runs for one.
        """
        return 0.0 if self._lacks_lower else self.estimate.sandwich(LEVEL).lower

    @property
    def _lacks_lower(self) -> bool:
        draws = self.estimate.draws
        exact = all(is_tractable(draws, role) for role in ("gold", "target"))
        return not exact and bool(what_is_missing(draws))

    @property
    def slack(self) -> float:
        """Looseness of both versions, each at its own outputs."""
        gaps = [gap.value for gap in self.estimate.looseness if gap is not None]
        return float(max(sum(gaps), 0.0))

    @property
    def outcome(self) -> str:
        """`agrees`, `disagrees` or `undecided`, at the tolerance; the first two hold at 95%."""
        if self.upper <= self.tolerance:
            return "agrees"
        return "disagrees" if self.lower > self.tolerance else "undecided"

    @property
    def words(self) -> str:
        """The outcome in a sentence."""
        value = show(Mean(self.estimate.value, self.estimate.std_error))
        name = plain(self.name)
        if self.outcome == "agrees":
            off, unseen = self.estimate.total_variation(LEVEL), max(self.estimate.unseen(LEVEL))
            return (
                f"agrees with {name} to within {_up(self.upper)} nats, {unseen:.1%} of the runs "
                f"left out, and in any probability to within {_up(off)} (95%)"
            )
        if self.outcome == "disagrees":
            return (
                f"DISAGREES with {name}: by {self.lower:.2g} nats at least (95%; AIDE's bound is "
                f"{value}). One of the two is wrong"
            )
        more = f" ({MIN_RUNS} or more for a lower limit)" if self._lacks_lower else ""
        return (
            f"was not shown to agree with {name} to within {self.tolerance:g} nats, nor to "
            f"disagree: {self.lower:.2g} nats at least (95%), AIDE's bound is {value}, looseness "
            f"at their own outputs {self.slack:.2g}. Raise num_meta, the budget or num_runs{more}"
        )


@dataclass(frozen=True, repr=False)
class Audit:
    """The outcome of `aide.audit`.

    Attributes:
        tests: The comparisons.
        simulated: Results on simulated data, if there are any.
        tolerance: Nats of disagreement that would do.
        untested: What could have been tested, and how to.
        name: The gold standard.
    """

    tests: tuple[AuditTest, ...]
    simulated: Simulated | None
    tolerance: float
    untested: tuple[str, ...]
    name: str

    @property
    def verdict(self) -> str:
        """`passed` if all tests agree, `failed` if one disagrees, otherwise `undecided`."""
        outcomes = {test.outcome for test in self.tests} | {self._simulated_outcome()}
        if "disagrees" in outcomes:
            return "failed"
        return "undecided" if "undecided" in outcomes else "passed"

    @property
    def passed(self) -> bool:
        """Whether everything tested agrees to within the tolerance."""
        return self.verdict == "passed"

    @property
    def shown(self) -> tuple[str, ...]:
        """What this gold standard has been shown to do, and where it failed."""
        found = [test.words for test in self.tests]
        if self.simulated is not None:
            result = self.simulated
            if result.consistent:  # otherwise its numbers are about no posterior: see the warning
                found.append(_simulated_words(result))
            found += list(result.warnings)
        return tuple(found)

    @property
    def not_shown(self) -> tuple[str, ...]:
        """What no test here can show."""
        found = [
            "A mode that none of these versions visits: they agree with each other about the rest",
            "A log density that describes another model than you mean: all versions share it",
        ]
        if self.simulated is None:
            found.append(
                "How far it is from the exact posterior: aide.simulated shows that, on data "
                "simulated from the model"
            )
        else:
            found.append("What happens on real data that the model would not have produced")
        return (*found, *self.untested)

    @property
    def headline(self) -> str:
        """One line."""
        return f"Audit of {plain(self.name)}: {self.verdict.upper()} at {self.tolerance:g} nats"

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of every line below the headline."""
        return [("shown", f"{text}.") for text in self.shown] + [
            ("not shown", f"{text}.") for text in self.not_shown
        ]

    def __repr__(self) -> str:
        return "\n".join([self.headline, *(f"  {a:<10} {b}" for a, b in self.rows())])

    def __rich__(self) -> Any:
        from aide.auditing.table import two_columns

        colour = {"passed": "green", "failed": "red"}.get(self.verdict, "yellow")
        return two_columns(self.headline, self.rows(), colour)

    def _simulated_outcome(self) -> str:
        if self.simulated is None:
            return "agrees"
        if not self.simulated.consistent:
            return "disagrees"
        low, high = self.simulated.interval(LEVEL)
        if high <= self.tolerance:
            return "agrees"
        is_exact = abs(self.simulated.looseness.value) < 1e-9
        return "disagrees" if is_exact and low > self.tolerance else "undecided"


def _simulated_words(result: Simulated) -> str:
    high, off = result.interval(LEVEL)[1], result.total_variation(LEVEL)
    return (
        f"is within {_up(high)} nats of the exact posterior on average over data simulated from "
        f"the model, {result.unseen(LEVEL):.1%} of them left out, and in any probability to within "
        f"{_up(off)} (95%, from {result.num_datasets} data sets)"
    )


def _up(value: float) -> str:
    """Two digits, rounded up: "to within" must hold."""
    if value <= 0 or not np.isfinite(value):
        return "1e-9" if value <= 0 else "+inf"
    digits = 1 - int(np.floor(np.log10(value)))
    return f"{np.ceil(value * 10**digits) / 10**digits:.2g}"
