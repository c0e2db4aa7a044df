"""The result of `aide.compare`: estimates of several targets, as a table."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aide.comparing.columns import (
    COLUMNS,
    LEAVE_FIRST,
    TargetRow,
    bound_at,
    common_metas,
    difference_of,
    errors_of,
    is_measured,
)
from aide.estimation.closeness import LEVEL, Closeness, remedy
from aide.estimation.errors.tolerance import (
    ErrorCloseness,
    ErrorTolerance,
    Tolerance,
    tolerance_words,
)
from aide.estimation.errors.words import sentence
from aide.estimation.summary import Estimate
from aide.estimation.terms import Mean, Metas
from aide.estimation.trust import Trust
from aide.reporting.figures import PanelGrid, plot_limits
from aide.reporting.grid import Grid
from aide.reporting.numbers import FAILED, PASSED, UNDECIDED, Verdict, all_of, in_nats
from aide.reporting.result import Result

NUMBERS = re.compile(r"[-+]?[0-9][0-9.,]*(?:e[-+]?[0-9]+)?%?")
"""Numbers in a note: notes that differ in numbers alone are printed once."""
MOST_NOTES = 8
"""Largest number of notes of the estimates that are printed, the most important first."""


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Result, Mapping[str, Estimate]):
    """Estimates of several targets against one gold standard: a mapping from their names.

    Attributes:
        estimates: One `Estimate` per target; the gold standard's runs are the same in all.
        tolerance: Largest divergence in nats that is good enough, or `None`.
        closeness: Limits and the tolerance, per target; empty without a tolerance.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> targets = {"fit": fit, "exact": exact}
        >>> found = aide.compare(0, exact, targets, num_gold=100, num_target=100)
        >>> found["fit"].value > found["exact"].value, found.ranking
        (True, ('exact', 'fit'))
    """

    estimates: Mapping[str, Estimate]
    tolerance: Tolerance | None
    closeness: Mapping[str, Closeness | ErrorCloseness]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names in the order of their bounds at `common_metas`, the smallest first.

        A bound falls as M grows, so that bounds at different M have no order. Targets without a
        number (`rests_on_one_density`) come last.
        """

        def place(name: str) -> tuple[bool, float]:
            return not is_measured(self[name]), bound_at(self[name], self.common_metas)

        return tuple(sorted(self, key=place))

    @cached_property
    def common_metas(self) -> Metas:
        """M of the gold standard and of the target that all have, at which targets are ranked."""
        return common_metas([one for one in self.values() if is_measured(one)] or [*self.values()])

    def difference(self, one: str, other: str) -> Mean:
        """The bound of `one` minus that of `other`, with the standard error of the difference.

        Runs are paired: the gold standard's are shared, and the targets' have the same keys. Both
        bounds are taken at the same M, the largest that both have.
        """
        return difference_of(self[one], self[other])

    @cached_property
    def entries(self) -> tuple[TargetRow, ...]:
        """The rows of the table, in the order of the ranking."""
        best, found = self.ranking[0], []
        for rank, name in enumerate(self.ranking, 1):
            row = TargetRow(name, self[name], self.closeness.get(name), rank)
            if not is_measured(self[name]):
                row = row._replace(rank=None)
            elif name != best:
                behind = difference_of(self[name], self[best], self.common_metas)
                row = row._replace(behind=behind)
            found.append(row)
        return tuple(found)

    @property
    def outcomes(self) -> dict[str, Verdict]:
        """`passed`, `failed` or `undecided` for each target; empty without a tolerance."""
        return {name: closeness.outcome for name, closeness in self.closeness.items()}

    @property
    def verdict(self) -> Verdict | None:
        """`failed` if one target failed, `passed` if all passed; `None` without a tolerance.

        A gold standard in doubt shows nothing: closeness to it then counts as `undecided`.
        """
        if not self.outcomes:
            return None
        found = all_of(self.outcomes.values())
        return UNDECIDED if found == PASSED and self.trust.doubts else found

    @property
    def headline(self) -> str:
        """The number of targets, the gold standard, and the number of targets that passed."""
        gold = next(iter(self.values())).draws.gold
        num = "1 target" if len(self) == 1 else f"{len(self)} targets"
        text = f"{num} against {gold.name}"
        if self.tolerance is None:
            return text
        within = sum(outcome == PASSED for outcome in self.outcomes.values())
        of = " of a gold standard that failed" if self.trust.doubts else ""
        return f"{text}: {within} of {len(self)} within {tolerance_words(self.tolerance)}{of}"

    @property
    def trust(self) -> Trust:
        """The trust in the gold standard."""
        return next(iter(self.values())).trust

    @property
    def head(self) -> tuple[str, ...]:
        """The trust in the gold standard."""
        return (self.trust.words,)

    def grid(self) -> Grid:
        """One line per target, the smallest bound first."""
        entries = self.entries
        columns = [column for column in COLUMNS if any(map(column.applies, entries))]
        return Grid(
            tuple(column.title for column in columns),
            tuple(tuple(column.text(entry) for column in columns) for entry in entries),
            tuple(self.outcomes.get(entry.name, "") for entry in entries),
            frozenset(column.title for column in columns if column.is_text),
            LEAVE_FIRST,
        )

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per target, with the same entries in all; limits at 95%."""
        return [
            {name: number for column in COLUMNS for name, number in column.numbers(entry).items()}
            for entry in self.entries
        ]

    def rows(self) -> list[tuple[str, str]]:
        """Explanations of the table, and advice on undecided targets."""
        unseen = max(share for one in self.values() for share in one.unseen(LEVEL))
        found = [*self._unmeasured(), *self._order()]
        if any(entry.behind for entry in self.entries):
            at = " at that M" if self._order() else ""
            text = f"How far the bound is above the smallest one{at}, from runs paired key by key"
            found.append(("above best", f"{text}; comparison.difference has its standard error."))
        if any(entry.estimate.gold_to_target.is_kl_bound for entry in self.entries):
            text = (
                "Two parts of the divergence: KL(gold‖target), large where the target misses mass, "
                "and KL(target‖gold), large where it invents mass."
            )
            found.append(("misses, invents", text))
        found += [
            (name, sentence(errors.table.variables, errors.missed) + ".")
            for name in self.ranking
            if (errors := errors_of(TargetRow(name, self[name], None))) is not None
        ]
        text = (
            "Means and sds are those of the worst variable, and any probability computed from the "
            "target differs from the gold standard's by at most the number shown (95%)."
        )
        found.append(("errors", text))
        found += self._meaning(unseen)
        found += [
            ("to decide", f"{entry.name}: {remedy(entry.estimate, entry.closeness)}.")
            for entry in self.entries
            if entry.closeness is not None
            and entry.closeness.outcome == UNDECIDED
            and is_measured(entry.estimate)
        ]
        text = f"Outputs rarer than {100 * unseen:.2g}% may be missing"
        return [*found, ("unseen", f"{text}; they could add any number of nats.")]

    def _meaning(self, unseen: float) -> list[tuple[str, str]]:
        """The meaning of the verdicts that occur."""
        if self.tolerance is None:
            return []
        if isinstance(self.tolerance, ErrorTolerance):
            return _error_meaning(self.tolerance, set(self.outcomes.values()))
        nats, fewest = in_nats(self.tolerance), min(map(_fewest_runs, self.values()))
        apart = f"not counting regions of less than {unseen:.1%} probability"
        words: dict[Verdict, str] = {
            PASSED: f"With 95% confidence the divergence is below {nats}, {apart}, which "
            f"{fewest:,} runs cannot rule out.",
            FAILED: f"With 95% confidence the divergence is above {nats}: it is at least the "
            "number shown.",
            UNDECIDED: f"Neither was shown: the divergence may be below or above {nats}.",
        }
        seen = set(self.outcomes.values())
        return [(str(verdict), text) for verdict, text in words.items() if verdict in seen]

    def _unmeasured(self) -> list[tuple[str, str]]:
        """Targets without a number, and other ways to test them."""
        found = []
        for name, one in self.items():
            if is_measured(one):
                continue
            remedy = (
                "compare the draws themselves, aide.compare_draws(gold, target)"
                if all(side.chains is not None for side in one.draws.sides)
                else "test the samplers against it with aide.check"
            )
            text = f"{name} and the gold standard state the same density at every output: {remedy}."
            found.append(("no number", text))
        return found

    def _order(self) -> list[tuple[str, str]]:
        """The M at which targets are ranked, if they differ in M."""
        metas = {
            tuple(side.num_meta for side in one.draws.sides)
            for one in self.values()
            if is_measured(one)
        }
        if len(metas) < 2:
            return []
        gold, target = self.common_metas
        text = (
            f"Targets are ranked by the bound at M = {target} of the target and {gold} of the gold "
            "standard, which all have: a bound falls as M grows, so that bounds at different M, as "
            "shown, have no order."
        )
        return [("order", text)]

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes of M, and the notes on all targets, the most important first."""
        raised = []
        for name in self.ranking:
            words, found = self[name].look.words, "It was decided"
            if self.outcomes.get(name) == UNDECIDED:
                found = "It is undecided even"
            if words:  # with `until` a sentence, after a raised M the end of one
                says = f"{found} {words}." if words.startswith("after") else words
                raised.append(f"{name}: {says}")
        return (*raised, *self._notes_on_targets())

    def _notes_on_targets(self) -> list[str]:
        """Notes of the estimates, in their order of importance.

        A note on several targets is printed once, in full for the target with the largest bound.
        """
        ranked = sorted(
            (rank, -place, name, note)
            for place, name in enumerate(self.ranking)
            for rank, note in enumerate(self[name].notes)
        )
        kinds: dict[str, list[tuple[str, str]]] = {}
        for _, _, name, note in ranked:
            kinds.setdefault(NUMBERS.sub("#", note), []).append((name, note))
        found = []
        for said in list(kinds.values())[:MOST_NOTES]:
            names, (first, text) = [name for name, _ in said], said[0]
            if len({note for _, note in said}) > 1:
                found.append(f"{first}: {text} The same, in other numbers: {'; '.join(names[1:])}.")
            else:
                everyone = len(names) == len(self) > 1
                found.append(f"{'All targets' if everyone else '; '.join(names)}: {text}")
        if len(kinds) > MOST_NOTES:
            found.append(f"{len(kinds) - MOST_NOTES} more notes are in comparison[name].notes.")
        return found

    def numbers(self) -> dict[str, Any]:
        """The tolerance, and the gold standard."""
        gold = next(iter(self.values())).draws.gold
        return {
            "tolerance": str(self.tolerance)
            if isinstance(self.tolerance, ErrorTolerance)
            else self.tolerance,
            "gold": gold.name,
            "num_gold": gold.num_runs,
            "gold_trust": self.trust.outcome,
            "gold_doubts": self.trust.doubts,
        }

    def layout(self) -> PanelGrid:
        """A row for every target."""
        return PanelGrid(size=(6.4, 1.2 + 0.35 * len(self)))

    def plot_on(self, panels: np.ndarray) -> None:
        """Plot the interval of every target in their ranking, and a tolerance in nats."""
        nats = None if isinstance(self.tolerance, ErrorTolerance) else self.tolerance
        entries = [entry for entry in self.entries if is_measured(entry.estimate)]
        limits = [entry.estimate.interval(LEVEL) for entry in entries]
        values = [entry.estimate.value for entry in entries]
        plot_limits(panels[0], [entry.name for entry in entries], limits, values, nats)
        panels[0].set_xlabel("bound on the divergence (nats), 95% interval")


def _fewest_runs(estimate: Estimate) -> int:
    return min(side.num_runs for side in estimate.draws.sides)


def _error_meaning(tolerance: ErrorTolerance, seen: set[Verdict]) -> list[tuple[str, str]]:
    """The meaning of verdicts on errors."""
    words: dict[Verdict, str] = {
        PASSED: f"With 95% confidence all errors are within {tolerance}.",
        FAILED: f"With 95% confidence one error is beyond {tolerance}.",
        UNDECIDED: f"Neither was shown: errors may be within {tolerance} or beyond.",
    }
    return [(str(verdict), text) for verdict, text in words.items() if verdict in seen]
