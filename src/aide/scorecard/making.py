"""References for all posteriors that have none: each is made, written and summed up in a row."""

import fnmatch
import json
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from aide._core.keywords import keywords
from aide._core.process import make_folder
from aide._core.validate import check_count, check_positive
from aide.adapters.numpyro.posterior import NumpyroPosterior, posterior
from aide.adapters.posteriordb import load_data, load_draws
from aide.gold_standards.result import GoldStandard
from aide.scorecard.kept import finish_all, read_rows
from aide.scorecard.long_runs import compare_with_nuts
from aide.scorecard.made import References
from aide.scorecard.models import MODELS
from aide.scorecard.moments import MeanAndSd
from aide.scorecard.pairs import CannotRun, key_of, model_of
from aide.scorecard.references import NUM_DRAWS, coordinates, write_reference

MAX_SECONDS = 300.0
"""Seconds that making one gold standard may take, unless stated."""
NUM_ATTEMPTS = 3
"""Gold standards that are made, with keys of their own, until one passes its tests."""

NO_MODEL = "There is no NumPyro model of the Stan program {program}."


class Reference(NamedTuple):
    """The making of the reference of one posterior.

    Attributes:
        folder: The copy of the database.
        out: Where references and rows are written.
        name: `DATA-MODEL`.
        seed: Seed of all references.
        num_draws: Draws of the reference.
        max_seconds: Seconds that making one gold standard may take.
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
        return Path(self.out) / "rows" / f"{self.name}.json"

    def refusal(self) -> str:
        """Return a reason if there is no model."""
        program = model_of(Path(self.folder), self.name)
        return "" if program in MODELS else NO_MODEL.format(program=program)

    def row(self) -> dict[str, Any]:
        """Make gold standards until one passes, write its draws, and sum them up."""
        post, begun = posterior_of(Path(self.folder), self.name), time.perf_counter()
        gold, num_attempts = self._gold(post)
        told = {
            "program": model_of(Path(self.folder), self.name),
            "dimension": post.dimension,
            "seed": self.seed,
            "num_attempts": num_attempts,
            "seconds_gold": time.perf_counter() - begun,
        }
        if gold.doubts:
            return {**told, "reason": f"Its gold standard is flagged: {'; '.join(gold.doubts)}."}
        begun = time.perf_counter()
        facts = write_reference(
            key_of(self.seed, self.name, "draws"),
            post,
            gold,
            self.out,
            self.name,
            num_draws=self.num_draws,
            facts={name: told[name] for name in ("seed", "num_attempts")},
        )
        seconds = {"seconds_draws": time.perf_counter() - begun}
        draws = coordinates(load_draws(self.out, self.name))
        variables = [{"name": name, **MeanAndSd.of(x)._asdict()} for name, x in draws.items()]
        checks = {**facts["comments"], "checks_made": facts["checks_made"]}
        return {**told, **seconds, **facts["diagnostics"], **checks, "variables": variables}

    def _gold(self, post: NumpyroPosterior) -> tuple[GoldStandard, int]:
        for attempt in range(NUM_ATTEMPTS):
            key = key_of(self.seed, self.name, f"reference {attempt}")
            gold = post.gold(key, max_seconds=self.max_seconds, progress=False)
            if not gold.doubts:
                break
        return gold, attempt + 1


class LongRun(NamedTuple):
    """The comparison of a reference with a long run of NUTS.

    Attributes:
        reference: The reference, which has been made.
    """

    reference: Reference

    @property
    def name(self) -> str:
        """`DATA-MODEL`."""
        return self.reference.name

    @property
    def file(self) -> Path:
        """Where the row is written."""
        return Path(self.reference.out) / "nuts" / f"{self.name}.json"

    def refusal(self) -> str:
        """Return nothing: what was made can be compared."""
        return ""

    def row(self) -> dict[str, Any]:
        """Run NUTS and compare."""
        made = self.reference
        post = posterior_of(Path(made.folder), made.name)
        draws = load_draws(made.out, made.name)
        return compare_with_nuts(key_of(made.seed, made.name, "NUTS"), post, draws)


@keywords("aide.scorecard.references")
def references(
    folder: str | Path,
    out: str | Path,
    *,
    only: str | Sequence[str] = "*",
    num_draws: int = NUM_DRAWS,
    max_seconds: float = MAX_SECONDS,
    nuts: bool = False,
    seed: int = 0,
    num_workers: int = 1,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> References:
    """Make references for the posteriors of posteriordb that have no reference draws.

    For each posterior, gold standards are made with keys of their own until one passes its tests,
    three at most. Its draws are written as a reference of the database, below `out`. Each row is a
    file in `out`/rows: a call that was stopped goes on where it stopped. A posterior without a
    NumPyro model, or whose gold standards are all flagged, has a row with the reason.

    Args:
        folder: A copy of posteriordb's folder `posterior_database`.
        out: The folder of the references.
        only: Names of posteriors, with wildcards: `wells*`.
        num_draws: Draws of each reference.
        max_seconds: Seconds that making one gold standard may take.
        nuts: Whether to compare each reference with a long run of NumPyro's NUTS as well.
        seed: Seed of all references. A reference depends on it and on its name alone.
        num_workers: Processes at a time, on this machine.
        executor: Any `concurrent.futures.Executor` instead, such as a Dask client's.
        progress: Show a progress bar; by default if a person watches.
    """
    check_count("num_draws", num_draws, 1000)
    check_count("num_workers", num_workers)
    check_positive("max_seconds", max_seconds)
    names = without_draws(Path(folder), (only,) if isinstance(only, str) else only)
    make_folder(Path(out))
    tasks = [Reference(str(folder), str(out), n, seed, num_draws, max_seconds) for n in names]
    where: Any = {"num_workers": num_workers, "executor": executor, "progress": progress}
    finish_all(tasks, **where)
    if nuts:
        made = [
            LongRun(task) for task in tasks if "reason" not in json.loads(task.file.read_text())
        ]
        finish_all(made, **where)
    return read_references(out)


def read_references(out: str | Path) -> References:
    """Read the rows of a folder that `references` wrote."""
    rows = read_rows(Path(out) / "rows")
    if not rows:
        raise ValueError(f"{out} has no rows of references in its folder rows.")
    checks = {check["name"]: check for check in read_rows(Path(out) / "nuts")}
    return References(rows, checks)


def without_draws(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Return the names of posteriors without reference draws that fit one of the patterns."""
    about = [json.loads(path.read_text()) for path in (folder / "posteriors").glob("*.json")]
    names = sorted(one["name"] for one in about if not one.get("reference_posterior_name"))
    found = [name for name in names if any(fnmatch.fnmatch(name, each) for each in patterns)]
    if not found:
        raise ValueError(
            f"{folder} has no posterior without reference draws that fits {', '.join(patterns)}. "
            "Pass the folder posterior_database of a copy of posteriordb."
        )
    return found


def posterior_of(folder: Path, name: str) -> NumpyroPosterior:
    """Return the posterior of the NumPyro model, with the data of the database."""
    program = model_of(folder, name)
    if program not in MODELS:
        raise CannotRun(NO_MODEL.format(program=program))
    model = MODELS[program]
    return posterior(model.model, *model.arguments(load_data(folder, name)))
