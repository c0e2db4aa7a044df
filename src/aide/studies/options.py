"""Options of the commands, checked."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aide.estimation.errors.tolerance import ErrorTolerance, Tolerance, as_tolerance
from aide.estimation.until.goals import Decided, Goal, StandardError
from aide.experiments.command import check_seed
from aide.experiments.runner import BadInput, quote

UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
"""Seconds in each unit of time."""


@dataclass(frozen=True)
class StudyOptions:
    """Options of one command; `None` stands for the default of the library.

    Attributes:
        seed: Seed of all runs.
        until: The goal at which runs end.
        max_runs: Largest number of runs.
        max_seconds: Largest number of seconds.
        tolerance: Largest divergence in nats, or errors, that are good enough.
        num_runs: Runs of each algorithm.
        meta: Meta-inference runs per output.
        out: The folder.
        unchanged: Whether the user states that plain Python code made the stored runs.
    """

    seed: int = 0
    until: Goal | None = None
    max_runs: int | None = None
    max_seconds: float | None = None
    tolerance: Tolerance | None = None
    num_runs: int | None = None
    meta: int | None = None
    out: Path = Path("aide-study")
    unchanged: bool = False

    def described(self) -> dict[str, object]:
        """The options on which results depend, as JSON."""
        until = None if self.until is None else [type(self.until).__name__, *self.until]
        return {
            "until": until,
            "max_runs": self.max_runs,
            "max_seconds": self.max_seconds,
            "tolerance": str(self.tolerance)
            if isinstance(self.tolerance, ErrorTolerance)
            else self.tolerance,
            "num_runs": self.num_runs,
            "meta": self.meta,
        }


def options_of(
    study: Path,
    seed: int,
    until: str | None,
    max_runs: int | None,
    max_time: str | None,
    tolerance: str | float | None,
    num_runs: int | None,
    meta: int | None,
    out: Path | None,
    unchanged: bool = False,
) -> StudyOptions:
    """Check the options of the command line; by default folders are named after the file."""
    for name, number, least in (
        ("--num-runs", num_runs, 2),
        ("--meta", meta, 1),
        ("--max-runs", max_runs, 1),
    ):
        if number is not None and number < least:
            raise BadInput(f"{name} must be at least {least}, got {number}.")
    wanted = parse_tolerance(tolerance)
    limited = max_runs is not None or max_time is not None
    if limited and until is None and wanted is None:
        raise BadInput("--max-runs and --max-time limit the cost of --until: give --until.")
    return StudyOptions(
        check_seed(seed),
        parse_until(until, wanted),
        max_runs,
        parse_time(max_time),
        wanted,
        num_runs,
        meta,
        Path("aide-studies") / study.stem if out is None else out,
        unchanged,
    )


def parse_until(text: str | None, tolerance: Tolerance | None) -> Goal | None:
    """The goal from a standard error such as `0.05`, or `verdict`, which needs a tolerance."""
    if text is None:
        return None
    if text == "verdict":
        if tolerance is None:
            raise BadInput("--until verdict needs --tolerance.")
        return Decided(tolerance)
    number = _number(text)
    if number is None or not 0 < number < np.inf:
        raise BadInput(
            f"--until takes a standard error in nats such as 0.05, or verdict, got {quote(text)}."
        )
    return StandardError(number)


def parse_time(text: str | None) -> float | None:
    """Seconds from a text such as `90s`, `10min` or `2h`."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9.]+)(s|min|m|h)", text.strip())
    number = None if found is None else _number(found[1])
    if found is None or number is None or number <= 0:
        raise BadInput(f"--max-time takes a time: 90s, 10min or 2h; got {quote(text)}.")
    return number * UNITS[found[2]]


def parse_tolerance(given: str | float | None) -> Tolerance | None:
    """A tolerance from nats, `0.5`, or errors, `means 0.1 sd, sds 10%, probabilities 0.05`."""
    if given is None:
        return None
    try:
        wanted = as_tolerance(given)
        if not isinstance(wanted, ErrorTolerance) and not np.isfinite(wanted):
            raise ValueError(f"tolerance must be finite, got {given!r}.")
    except ValueError as error:
        raise BadInput(f"--tolerance: {error}") from error
    return wanted


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
