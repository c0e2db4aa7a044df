"""The rows of one posterior, in one process: one file per row, nothing finished is run again."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from aide._core.process import make_folder, write_atomically
from aide.reporting.result import as_data
from aide.scorecard.algorithms import ALGORITHMS
from aide.scorecard.card import MADE
from aide.scorecard.clock import stopwatch
from aide.scorecard.facts import facts
from aide.scorecard.pairs import CannotRun, key_of, load_case, made_row, row_of


class PosteriorTask(NamedTuple):
    """All rows of one posterior, for a process of its own.

    Attributes:
        folder: The copy of the database.
        out: Where rows are written.
        name: `DATA-MODEL`.
        algorithms: Names of algorithms, and `MADE` for the gold standard.
        seed: Seed of the card.
        num_runs: Runs of either side.
        tolerance: What is good enough, in words or nats.
        max_seconds: Seconds that making the gold standard may take.
        max_row_seconds: Seconds that one row may take.
    """

    folder: str
    out: str
    name: str
    algorithms: tuple[str, ...]
    seed: int
    num_runs: int
    tolerance: str | float
    max_seconds: float
    max_row_seconds: float

    @property
    def settings(self) -> dict[str, Any]:
        """What all rows of a card share, as JSON holds it."""
        kept = ("seed", "num_runs", "tolerance", "max_seconds")
        return as_data({name: getattr(self, name) for name in kept})

    def file(self, algorithm: str) -> Path:
        """Return where a row of this posterior is."""
        plain = "".join(c if c.isalnum() else "-" for c in algorithm)
        return Path(self.out) / self.name / f"{plain}.json"

    @property
    def missing(self) -> tuple[str, ...]:
        """Algorithms without a row yet."""
        return tuple(each for each in self.algorithms if not self.file(each).exists())

    def head(self, algorithm: str) -> dict[str, Any]:
        """Return what a row says of its circumstances."""
        return {
            "posterior": self.name,
            "algorithm": algorithm,
            "seed": self.seed,
            "num_runs": self.num_runs,
            **facts(),
        }

    def fail(self, algorithm: str, reason: str) -> None:
        """Write a row that has a reason in place of numbers."""
        write_json(self.file(algorithm), {**self.head(algorithm), "reason": reason})

    def forget_failures(self) -> None:
        """Delete rows that have a reason in place of numbers."""
        for algorithm in self.algorithms:
            path = self.file(algorithm)
            if path.exists() and "reason" in json.loads(path.read_text()):
                path.unlink()


def run_task(task: PosteriorTask) -> None:
    """Run all missing rows of one posterior and write each to its file."""
    try:
        with stopwatch() as loading:
            case = load_case(Path(task.folder), task.name)
    except CannotRun as error:
        for algorithm in task.missing:
            task.fail(algorithm, str(error))
        return
    shared = {
        "dimension": case.posterior.dimension,
        "reference_ess": case.reference.effective_size,
        "reference_rhat": case.reference.rhat,
        "seconds_load": loading.seconds.wall,
    }
    for algorithm in task.missing:
        try:
            key = key_of(task.seed, case.name, algorithm)
            if algorithm == MADE:
                found = made_row(case, key, task.num_runs, task.max_seconds)
            else:
                found = row_of(case, ALGORITHMS[algorithm], key, task.num_runs, task.tolerance)
        except Exception as error:  # a row that fails is a row with its reason
            found = {"reason": reason_of(error)}
        write_json(task.file(algorithm), {**task.head(algorithm), **shared, **found})


def reason_of(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace a file by data, at once."""
    make_folder(path.parent)
    text = json.dumps(as_data(data), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())
