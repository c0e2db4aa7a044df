"""The result of `aide.check` in words."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from aide.checking.algorithm.laws import Evidence
from aide.reporting.figures import PanelGrid, plot_p_values
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict, factor
from aide.reporting.numbers import p_value as p_text
from aide.reporting.result import Result

LAWS = {
    1: "The mean of xi over regenerate is the output density times Z.",
    2: "A trace of simulate and one of regenerate for the same output can change places.",
    3: "The output determines the trace, so that simulate and regenerate return one score.",
    4: "AIDE of the algorithm against itself is not below 0.",
    5: "The mean of h/xi over simulate is 1/Z for every density h.",
    6: "Among an output and its moved copies, the output stands as often at each as xi says.",
}
CLAIMS = {
    (2, 3): "Whether simulate and regenerate fit together",
    (1, 5, 6): "Whether xi is the density of the outputs",
    (5,): "Whether Z is what log_z says",
}
"""The claims of a pass, by the laws that can support them; law 6 says nothing about constants."""
COLUMNS = ("law", "version", "p-value", "what was seen")
NEVER_SHOWN = (
    "That log_joint is the density you mean: one that is wrong in the same way everywhere "
    "describes another posterior, and no test of this kind can tell.",
    "Errors that occur only with other data, settings or horizons than those run here.",
)
"""Questions that no check answers: the last lines of every report."""


@dataclass(frozen=True, repr=False)
class CheckReport(Result):
    """The outcome of `aide.check`.

    Attributes:
        name: The algorithm.
        evidence: The outcome of every test.
        false_alarm: Probability with which a correct algorithm fails, over all tests together.
        num_runs: Runs of `simulate`, over all versions of the algorithm.
        single: Versions with one particle.
        place: The first wrong move, if it was found.
        kernels: MCMC kernels that failed a check of their own, in words.

    Example:
        >>> prior = Normal(0.0, 1.0)
        >>> log_joint = lambda x: prior.log_prob(x) - 0.5 * (x - 2.0) ** 2
        >>> report = aide.check(0, aide.sir(prior, log_joint, num_particles=3), num_runs=2000)
        >>> report.passed, report.false_alarm
        (True, 0.0001)
    """

    name: str
    evidence: tuple[Evidence, ...]
    false_alarm: float
    num_runs: int
    single: tuple[str, ...] = ()
    place: str | None = None
    kernels: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[Evidence, ...]:
        """Tests that could be made."""
        return tuple(item for item in self.evidence if item.p_value is not None)

    @property
    def failures(self) -> tuple[Evidence, ...]:
        """Tests whose p-value, times the number of tests, is below the false-alarm rate."""
        level = self.false_alarm / max(len(self.judged), 1)
        return tuple(item for item in self.judged if (item.p_value or 0.0) <= level)

    @property
    def missing(self) -> tuple[str, ...]:
        """The claims of a pass that were not supported, in words; none once a law is broken."""
        found: list[str] = []
        if self.failures:
            return ()
        for laws, claim in CLAIMS.items():
            items = [item for item in self.evidence if item.law in laws]
            if not items and laws == (5,):
                continue  # Z is unknown, and nothing is claimed about it
            if not any(item.p_value is not None for item in items):
                why = dict.fromkeys(item.words for item in items)
                found.append(f"{claim} was not tested: {'; '.join(why) or 'no such test'}.")
            doubts = [f"{item.variant}: {item.doubt}" for item in items if item.doubt is not None]
            found += [f"{claim} was not shown on {doubt}." for doubt in doubts]
        return tuple(found)

    @property
    def verdict(self) -> Verdict:
        """`passed`, `failed` (a law is broken) or `undecided` (some law could not be tested)."""
        if self.failures:
            return FAILED
        return UNDECIDED if self.missing else PASSED

    @property
    def passed(self) -> bool:
        """Whether both operations, the density and a stated Z were tested, and no law is broken."""
        return self.verdict == PASSED

    @property
    def p_value(self) -> float:
        """Smallest p-value times the number of tests: below `false_alarm` on failure."""
        values = [item.p_value for item in self.judged if item.p_value is not None]
        return min(1.0, min(values) * len(values)) if values else 1.0

    @property
    def advice(self) -> tuple[str, ...]:
        """Usual causes of the failures."""
        return tuple(_advice(self))

    def with_place(self, place: str | None, kernels: tuple[str, ...]) -> "CheckReport":
        """The report after the search for the first wrong move."""
        return replace(self, place=place, kernels=kernels)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def headline(self) -> str:
        """The verdict, the p-value and the number of tests on one line."""
        found = f"{p_text(self.p_value)} over {_tests(self)}"
        return f"aide.check of {self.name}: {self.verdict} ({found})"

    def grid(self) -> Grid:
        """One line per test, those that failed first."""
        failed = self.failures
        evidence = sorted(self.evidence, key=lambda item: item not in failed)
        lines = tuple(
            (
                f"{item.law}",
                item.variant,
                "not tested"
                if item.p_value is None
                else p_text(item.p_value).removeprefix("p").removeprefix(" =").strip(),
                item.words,
            )
            for item in evidence
        )
        verdicts = tuple(FAILED if item in failed else "" for item in evidence)
        return Grid(COLUMNS, lines, verdicts, frozenset(COLUMNS))

    def rows(self) -> list[tuple[str, str]]:
        """Advice, claims that were not shown, the laws, and the limits of every check."""
        found = [("wrong move", f"The first wrong move is {self.place}.")] if self.place else []
        found += [("advice", text) for text in self.advice]
        found += [("not shown", text) for text in self.missing]
        seen = {item.law for item in self.judged}
        found += [(f"law {law}", words) for law, words in LAWS.items() if law in seen]
        found += [("not shown", text) for text in NEVER_SHOWN]
        rate = f"A correct algorithm fails with probability {self.false_alarm:.2g} at most."
        return [*found, ("rate", rate)]

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per test."""
        return [asdict(item) for item in self.evidence]

    def numbers(self) -> dict[str, Any]:
        """The numbers, by name."""
        rates = {"p_value": self.p_value, "false_alarm": self.false_alarm}
        return {**rates, "num_runs": self.num_runs, "num_tests": len(self.judged)}

    def layout(self) -> PanelGrid:
        """A line of its own for every test."""
        return PanelGrid(size=(6.4, 1.2 + 0.35 * len(self.judged)))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the p-value of every test."""
        judged = self.judged
        names = [f"law {item.law}, {item.variant}" for item in judged]
        level = self.false_alarm / max(len(judged), 1)
        plot_p_values(panels[0], names, [item.p_value or 0.0 for item in judged], level)


_TOO_LOOSE = (
    "Few runs carry the mean of xi, so that {:,} runs cannot show the mean; no law is broken. What "
    "decides: the same code on an easier posterior, whose start is nearer to it (xi then varies "
    "less); the algorithm as given alone (shrink=False) where it has many temperatures or "
    "particles, since the small versions are the loosest; or num_runs ten times as large."
)
"""Advice where the only reason for an undecided verdict is the spread of xi."""


def _tests(report: CheckReport) -> str:
    versions = len({item.variant for item in report.evidence})
    tests, of = _plural(len(report.judged), "test"), _plural(versions, "version")
    return f"{tests} of {of} in {report.num_runs:,} runs"


def _plural(num: int, what: str) -> str:
    return f"{num} {what}{'' if num == 1 else 's'}"


def _advice(report: CheckReport) -> list[str]:
    """Usual causes, from the pattern of what failed."""
    laws = {item.law for item in report.failures}
    found = list(report.kernels)
    if not laws and any(item.doubt is not None for item in report.evidence):
        found.append(_TOO_LOOSE.format(report.num_runs))
    if laws & {2, 3, 4}:
        if report.kernels:
            pass
        elif report.place:
            found.append(
                "Usual causes: the backward kernel is not the reversal of the forward one (a sweep "
                "not reversed, another temperature or step size); the retained particle's weight "
                "uses the new state where the old one belongs; a proposal density is missing."
            )
        elif _is_right_with_one_particle(report):
            found.append(
                "Nothing is wrong with one particle, so the error concerns several particles: "
                "the conditional resampler and the retained slot, the mean over particles (log P), "
                "the number of particles in regenerate."
            )
        else:
            found.append(
                "Usual causes: regenerate does not sample from the law it weighs by, or leaves out "
                "the trace that simulate used; the two operations use different settings."
            )
    if laws & {1, 5, 6} and not laws & {2, 3}:
        masses = [item.log_mass for item in report.failures if item.log_mass is not None]
        if masses:
            found.append(
                f"Over a region of typical outputs xi integrates to {factor(masses[0])} times what "
                "log_z claims: a constant may be missing, or log_z should be None."
            )
        found.append(
            "The two operations agree with each other but not with the outputs. Usual causes: a "
            "density that is not that of the sampler (a sign, a Jacobian, a scale, a support), one "
            "that is not normalised, or a random key used twice."
        )
    return found


def _is_right_with_one_particle(report: CheckReport) -> bool:
    tried = [item for item in report.judged if item.variant in report.single and item.law in (2, 3)]
    return bool(tried) and not set(tried) & set(report.failures)
