"""Gold standards beside published numbers: one row per posterior of a suite."""

import fnmatch
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aide._core.keywords import keywords
from aide._core.process import make_folder
from aide._core.types import TARGET
from aide._core.validate import check_count, check_positive
from aide.engine.runners.choose import MetaTrial
from aide.reporting.figures import PanelGrid
from aide.reporting.grid import Grid
from aide.reporting.numbers import with_error
from aide.reporting.result import Result
from aide.scorecard.kept import finish_all, read_rows
from aide.scorecard.moments import MeanAndSd
from aide.scorecard.pairs import key_of
from aide.scorecard.references import coordinates
from aide.scorecard.suites import PublishedCase, suite_at

NUM_DRAWS = 4000
"""Draws of each gold standard, unless stated."""
MAX_SECONDS = 300.0
"""Seconds that making one gold standard may take, unless stated."""
MOST_Z = 4.0
"""Standard errors by which no published number may differ."""
Row = Mapping[str, Any]


class PublishedTask(NamedTuple):
    """A posterior of a suite.

    Attributes:
        folder: The folder of the suite, or the word that names it.
        out: Where rows are written.
        name: The name of the posterior.
        seed: Seed of all rows.
        num_draws: Draws of the gold standard.
        max_seconds: Seconds that making the gold standard may take.
    """

    folder: str
    out: str
    name: str
    seed: int
    num_draws: int
    max_seconds: float

    @property
    def file(self) -> Path:
        """Where the row is written."""
        return Path(self.out) / f"{self.name}.json"

    def refusal(self) -> str:
        """Return a reason if the suite has no model or no data."""
        suite = suite_at(self.folder)
        return "" if suite is None else suite.refusal(self.name)

    def row(self) -> dict[str, Any]:
        """Make a gold standard and compare its numbers with the published ones."""
        suite = suite_at(self.folder)
        if suite is None:
            raise ValueError(f"{self.folder} holds no suite of published numbers.")
        case, begun = suite.load(self.name), time.perf_counter()
        key = key_of(self.seed, suite.title, self.name)
        gold = case.posterior.gold(key, max_seconds=self.max_seconds, progress=False)
        seconds_gold, begun = time.perf_counter() - begun, time.perf_counter()
        numbers = []
        if case.log_evidence is not None:
            ours = gold.record.log_evidence
            numbers.append(_beside("log evidence", case.log_evidence, ours))
        if case.moments:
            key = key_of(self.seed, suite.title, self.name, "draws")
            numbers += _moments(case, MetaTrial(key, gold, TARGET, self.num_draws).values)
        worst = max(numbers, key=lambda each: each["z"])
        return {
            "suite": suite.title,
            "source": case.source,
            "seed": self.seed,
            "dimension": case.posterior.dimension,
            "own_verdict": gold.verdict,
            "own_doubts": list(gold.doubts),
            "own_looseness": list(gold.record.looseness),
            "seconds_gold": seconds_gold,
            "seconds_draws": time.perf_counter() - begun,
            "largest_z": worst["z"],
            "worst": worst["quantity"],
            "numbers": numbers,
        }


def _beside(
    quantity: str, published: tuple[float, float], ours: tuple[float, float]
) -> dict[str, Any]:
    error = float(np.hypot(published[1], ours[1]))
    return {
        "quantity": quantity,
        "published": published[0],
        "published_error": published[1],
        "ours": ours[0],
        "ours_error": ours[1],
        "z": abs(published[0] - ours[0]) / error,
    }


def _moments(case: PublishedCase, rows: np.ndarray) -> list[dict[str, Any]]:
    """Compare all published means and standard deviations."""
    values = case.quantities(case.posterior.values_of(np.asarray(rows)))
    draws = coordinates({name: np.asarray(each)[None] for name, each in values.items()})
    found = []
    for name, told in case.moments.items():
        ours = MeanAndSd.of(draws[name])
        means = (told.mean, told.mean_error), (ours.mean, ours.mean_error)
        sds = (told.sd, told.sd_error), (ours.sd, ours.sd_error)
        found += [_beside(f"mean of {name}", *means), _beside(f"sd of {name}", *sds)]
    return found


@dataclass(frozen=True, repr=False, eq=False)
class PublishedCard(Result):
    """Numbers of gold standards beside published ones.

    Attributes:
        cells: One dictionary per posterior, as it stands in its file.
    """

    cells: tuple[Row, ...]

    @property
    def measured(self) -> tuple[Row, ...]:
        """Rows with numbers."""
        return tuple(row for row in self.cells if "reason" not in row)

    @property
    def disagreements(self) -> tuple[Row, ...]:
        """Gold standards without doubts that differ from a published number."""
        return tuple(
            row
            for row in self.measured
            if not row["own_doubts"] and float(row["largest_z"]) > MOST_Z
        )

    @property
    def headline(self) -> str:
        """How many posteriors and numbers were compared."""
        num = sum(len(row["numbers"]) for row in self.measured)
        return (
            f"Posteriors: {len(self.measured)}. Published numbers compared: {num}. Posteriors "
            f"without a row: {len(self.cells) - len(self.measured)}."
        )

    def grid(self) -> Grid | None:
        """One line per posterior: the published number that differs most, and ours."""
        titles = ("posterior", "numbers", "differs most", "published", "ours", "z", "own verdict")
        lines = []
        for row in self.measured:
            worst = max(row["numbers"], key=lambda each: float(each["z"]))
            both = [
                with_error(float(worst[name]), float(worst[f"{name}_error"]))
                for name in ("published", "ours")
            ]
            z = f"{float(worst['z']):.1f}"
            num, verdict = str(len(row["numbers"])), row["own_verdict"] or "–"
            lines.append((row["name"], num, worst["quantity"], *both, z, verdict))
        if not lines:
            return None
        texts = frozenset({"posterior", "differs most", "own verdict"})
        return Grid(titles, tuple(lines), ("",) * len(lines), texts)

    def rows(self) -> list[tuple[str, str]]:
        """Whether a gold standard differs from a published number without saying so."""
        names = ", ".join(row["name"] for row in self.disagreements)
        words = (
            f"These differ from a published number by more than {MOST_Z:g} standard errors, and "
            f"their gold standards do not say so: {names}."
            if names
            else f"No gold standard without doubts differs from a published number by more than "
            f"{MOST_Z:g} standard errors."
        )
        return [("agreement", words)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Posteriors without a row with the reason, and doubts of gold standards."""
        found: dict[str, list[str]] = {}
        for row in self.cells:
            for words in [row["reason"]] if "reason" in row else row["own_doubts"]:
                found.setdefault(words, []).append(row["name"])
        return tuple(f"{', '.join(names)}: {words}" for words, names in found.items())

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per published number."""
        return [
            {"posterior": row["name"], **number}
            for row in self.measured
            for number in row["numbers"]
        ]

    def numbers(self) -> dict[str, Any]:
        """Counts of posteriors and numbers."""
        return {
            "num_posteriors": len(self.measured),
            "num_without_row": len(self.cells) - len(self.measured),
            "num_numbers": len(self.records()),
            "num_disagreements": len(self.disagreements),
        }

    def layout(self) -> PanelGrid:
        """One panel."""
        return PanelGrid()

    def plot_on(self, panels: np.ndarray) -> None:
        """Draw all differences in standard errors, one line of points per posterior."""
        [axis] = panels.ravel()
        for place, row in enumerate(self.measured):
            z = [float(number["z"]) for number in row["numbers"]]
            axis.plot(z, [place] * len(z), "o", ms=4, alpha=0.5)
        axis.set_yticks(range(len(self.measured)), [row["name"] for row in self.measured])
        axis.axvline(MOST_Z, color="k", ls=":")
        axis.set_xlabel("difference from the published number, standard errors")


@keywords("aide.scorecard.published")
def published(
    folder: str | Path,
    out: str | Path,
    *,
    only: str | Sequence[str] = "*",
    num_draws: int = NUM_DRAWS,
    max_seconds: float = MAX_SECONDS,
    seed: int = 0,
    num_workers: int = 1,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> PublishedCard:
    """Compare gold standards with numbers that others published.

    Each row is a file in `out`: a call that was stopped goes on where it stopped. A posterior that
    cannot be run has a row with the reason.

    Args:
        folder: A checkout of TensorFlow Probability, whose Inference Gym stores means and
            standard deviations; or the word `evidence`, for published log evidence.
        out: The folder of the rows.
        only: Names of posteriors, with wildcards.
        num_draws: Draws of each gold standard.
        max_seconds: Seconds that making one gold standard may take.
        seed: Seed of all rows. A row depends on it and on its name alone.
        num_workers: Processes at a time, on this machine.
        executor: Any `concurrent.futures.Executor` instead, such as a Dask client's.
        progress: Show a progress bar; by default if a person watches.
    """
    check_count("num_draws", num_draws, 1000)
    check_count("num_workers", num_workers)
    check_positive("max_seconds", max_seconds)
    suite = suite_at(str(folder))
    if suite is None:
        raise ValueError(f"{folder} is no checkout of TensorFlow Probability with its spinoffs.")
    patterns = (only,) if isinstance(only, str) else only
    names = [n for n in suite.names() if any(fnmatch.fnmatch(n, each) for each in patterns)]
    if not names:
        known = ", ".join(suite.names())
        raise ValueError(
            f"{suite.title} has no posterior that fits {', '.join(patterns)}: {known}."
        )
    make_folder(Path(out))
    tasks = [
        PublishedTask(str(folder), str(out), name, seed, num_draws, max_seconds) for name in names
    ]
    finish_all(tasks, num_workers=num_workers, executor=executor, progress=progress)
    return read_published(out)


def read_published(out: str | Path) -> PublishedCard:
    """Read the rows of a folder that `published` wrote."""
    rows = read_rows(Path(out))
    if not rows:
        raise ValueError(f"{out} has no rows of published numbers.")
    return PublishedCard(rows)
