"""The result of `aide.check` in words."""

from dataclasses import dataclass, replace
from typing import Any

from aide.checking.algorithm.evidence import Evidence, short_factor

LAWS = {
    1: "xi is an unbiased estimate of the output density",
    2: "simulate and regenerate fit together (swap symmetry)",
    3: "the output determines the trace",
    4: "no distance to itself below 0",
    5: "1/xi averages to 1/Z",
    6: "among moved copies, outputs are where xi says they are",
}
CLAIMS = {
    (2, 3): "whether simulate and regenerate fit together",
    (1, 5, 6): "whether xi is the density of the outputs",
    (5,): "whether Z is what log_z says",
}
"""What a pass says, by the laws that can show it; law 6 sees no constant, law 5 a stated one."""
CANNOT_SEE = (
    "a log joint that is wrong in the same way everywhere describes another posterior: no test of "
    "this kind can see that",
    "errors that show only with data, settings or horizons other than those run here",
)


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What `aide.check` found.

    Attributes:
        name: The algorithm.
        evidence: The outcome of every test.
        false_alarm: Chance that a correct algorithm fails, over all tests together.
        num_runs: Runs of `simulate`, over all versions of the algorithm.
        single: Versions with one particle.
        place: The first wrong move, if it was found.
        kernels: MCMC kernels that are wrong by themselves, in words.
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
        """What a pass would need and was not shown, in words; nothing once a law is broken."""
        found: list[str] = []
        if self.failures:
            return ()
        for laws, claim in CLAIMS.items():
            items = [item for item in self.evidence if item.law in laws]
            if not items and laws == (5,):
                continue  # Z is unknown, and nothing is claimed about it
            if not any(item.p_value is not None for item in items):
                why = dict.fromkeys(item.words for item in items)
                found.append(f"{claim} was not tested: {'; '.join(why) or 'no such test'}")
            doubts = [f"{item.variant}: {item.doubt}" for item in items if item.doubt is not None]
            found += [f"{claim} was not shown on {doubt}" for doubt in doubts]
        return tuple(found)

    @property
    def verdict(self) -> str:
        """`passed`, `FAILED` (a law is broken) or `not shown` (some law could not be tested)."""
        if self.failures:
            return "FAILED"
        return "not shown" if self.missing else "passed"

    @property
    def passed(self) -> bool:
        """Whether both operations, the density and a stated Z were tested, and no law is broken."""
        return self.verdict == "passed"

    @property
    def p_value(self) -> float:
        """Smallest p-value times the number of tests: below `false_alarm` on failure."""
        values = [item.p_value for item in self.judged if item.p_value is not None]
        return min(1.0, min(values) * len(values)) if values else 1.0

    @property
    def advice(self) -> tuple[str, ...]:
        """Where to look."""
        return tuple(_advice(self))

    def with_place(self, place: str | None, kernels: tuple[str, ...]) -> "CheckReport":
        """The report after the search for the first wrong move."""
        return replace(self, place=place, kernels=kernels)

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        p_value = "< 1e-12" if self.p_value < 1e-12 else f"= {self.p_value:.2g}"
        lines = [f"aide.check: {self.name}: {self.verdict}   (p {p_value} over {_tests(self)})"]
        if self.place:
            lines.append(f"  first wrong move: {self.place}")
        for item in self.failures:
            lines.append(f"  law {item.law}, {item.variant}: {item.words}")
        lines += [f"  {text}" for text in (*self.advice, *self.missing)]
        if not self.failures:
            lines += _what_was_tested(self)
        lines += [f"  cannot see: {text}" for text in CANNOT_SEE]
        lines.append(f"  a correct algorithm fails with probability {self.false_alarm:g} at most")
        return "\n".join(lines)

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        colour = {"passed": "green", "FAILED": "red"}.get(self.verdict, "yellow")
        # Text, not str: names are the user's, and brackets in a str would be read as markup.
        title = Text.assemble(f"{self.name}: ", (self.verdict, colour))
        table = Table(title=title, title_justify="left")
        for column in ("law", "version", "p", "what was seen"):
            table.add_column(column, no_wrap=column != "what was seen")
        for item in self.evidence:
            p_value = "not tested" if item.p_value is None else f"{item.p_value:.2g}"
            cells = (str(item.law), item.variant, p_value, item.words)
            style = "red" if item in self.failures else None
            table.add_row(*map(Text, cells), style=style)
        place = [f"first wrong move: {self.place}"] if self.place else []
        for text in (*place, *self.advice, *self.missing):
            table.add_row("", "", "", Text(text, "yellow"))
        rate = f"A correct algorithm fails with probability {self.false_alarm:g} at most."
        table.caption = f"{rate} Cannot see: {'; '.join(CANNOT_SEE)}."
        table.caption_justify = "left"
        return table


def _tests(report: CheckReport) -> str:
    versions = len({item.variant for item in report.evidence})
    return f"{len(report.judged)} tests, {versions} versions, {report.num_runs:,} runs"


def _what_was_tested(report: CheckReport) -> list[str]:
    lines = []
    for law, words in LAWS.items():
        made = dict.fromkeys(item.variant for item in report.judged if item.law == law)
        if made:
            lines.append(f"  law {law} ({words}): {'; '.join(made)}")
    for item in report.evidence:
        if item.p_value is None:
            lines.append(f"  law {item.law} not tested on {item.variant}: {item.words}")
    return lines


def _advice(report: CheckReport) -> list[str]:
    """Usual causes, from the pattern of what failed."""
    laws = {item.law for item in report.failures}
    found = list(report.kernels)
    if laws & {2, 3, 4}:
        if report.kernels:
            pass
        elif report.place:
            found.append(
                "usual causes: the backward kernel is not the reversal of the forward one (a sweep "
                "not reversed, another temperature or step size); the retained particle's weight "
                "uses the new state where the old one belongs; a proposal density is missing"
            )
        elif _is_right_with_one_particle(report):
            found.append(
                "nothing is wrong with one particle: look at what happens between particles: "
                "the conditional resampler and the retained slot, the mean over particles (log P), "
                "the number of particles in regenerate"
            )
        else:
            found.append(
                "usual causes: regenerate does not sample from the law it weighs by, or leaves out "
                "the trace that simulate used; the two operations use different settings"
            )
    if laws & {1, 5, 6} and not laws & {2, 3}:
        masses = [item.log_mass for item in report.failures if item.log_mass is not None]
        if masses:
            found.append(
                f"xi has {short_factor(masses[0])} times the mass it claims in a region of typical "
                "outputs: is a constant missing, or should log_z be None?"
            )
        found.append(
            "the operations agree with each other but not with the outputs: a density that is not "
            "that of the sampler (a sign, a Jacobian, a scale, a support), one that is not "
            "normalised, or a random key used twice"
        )
    return found


def _is_right_with_one_particle(report: CheckReport) -> bool:
    tried = [item for item in report.judged if item.variant in report.single and item.law in (2, 3)]
    return bool(tried) and not set(tried) & set(report.failures)
