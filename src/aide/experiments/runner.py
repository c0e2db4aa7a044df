"""Running an experiment: checked inputs, missing rows with a progress bar, a resumable folder.

`info.json` is written before the first result, and describes the results: seed, settings, the
data's digest, the version of the library. Every file is replaced at once. A kill at
any moment therefore leaves a folder that the same command continues, and into which no other
command mixes its results.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from aide._core.process import make_folder, write_atomically
from aide._version import __version__
from aide.experiments.results import Row, format_rows, parse_rows


class BadInput(Exception):
    """Raised for input that cannot work; the message is one line."""


def quote(text: str, longest: int = 40) -> str:
    """The user's text, shortened if it would fill the terminal."""
    return repr(text if len(text) <= longest else text[:longest] + "…")


def source_of(path: Path | None, *arrays: np.ndarray) -> dict[str, str]:
    """The entry `data` of `info.json`: the file's name, and a digest of the numbers in it.

    Results depend on the numbers alone, so the file may be renamed or laid out differently.
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, "<f8").tobytes())
    return {"file": "built in" if path is None else str(path), "sha256": digest.hexdigest()}


def read_text(path: Path) -> str:
    """The text of the user's file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"cannot read --data {path}: {reason}. Check the path.") from None
    except UnicodeDecodeError as error:
        raise BadInput(
            f"--data {path} is not text: byte {error.start} is {error.object[error.start]:#04x}. "
            "Save it as UTF-8."
        ) from None


def read_column(path: Path) -> np.ndarray:
    """The numbers of a file with one number a line, with or without a header."""
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    numbers = []
    for position, line in enumerate(lines):
        try:
            numbers.append(float(line))
        except ValueError:
            if position > 0:
                message = f"{path}, line {position + 1}: {quote(line)} is not a number."
                raise BadInput(message) from None
    column = np.array(numbers)
    if len(set(numbers)) < 2 or not np.isfinite(column).all() or np.abs(column).max() > 1e100:
        raise BadInput(
            f"{path} must hold at least two different finite numbers (up to 1e100), one a line."
        )
    return column


OTHERWISE = "Choose another --out, or delete it."
"""Advice for a folder that cannot be continued."""


class Folder:
    """Results, figure and settings of one experiment on disk.

    Args:
        path: The folder, which is made or continued.
        seed: Seed of all runs.
        settings: All other data on which the results depend, as JSON.
        data: The entry of `source_of`, or `None` for an experiment without data.
    """

    def __init__(self, path: Path, seed: int, settings: Any, data: dict[str, str] | None):
        self.path = make_folder(path)
        self.results, self._info = path / "results.csv", path / "info.json"
        self._described = json.loads(
            json.dumps({"seed": seed, "settings": settings, "data": data, "versions": _versions()})
        )
        before = self._read_info()
        self.seconds = 0.0
        if before is None:
            self.save_info(0.0)
        else:
            self.seconds = self._check_same(before)

    def read_rows(self) -> list[Row]:
        """The rows that were written before."""
        if not self.results.exists():
            return []
        try:
            return parse_rows(self.results.read_text())
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(
                f"{self.results} is not what aide reproduce wrote: {error}. {OTHERWISE}"
            ) from None

    def save_rows(self, rows: Iterable[Row]) -> None:
        """Replace `results.csv`."""
        write_atomically(self.results, format_rows(rows).encode())

    def save_info(self, seconds: float) -> None:
        """Replace `info.json`; `seconds` is the time spent so far, in all calls."""
        info = {**self._described, "wall_seconds": round(seconds, 2)}
        write_atomically(self._info, (json.dumps(info, indent=1) + "\n").encode())

    def save_figure(self, figure: Any) -> None:
        """Replace `figure.svg` and `figure.png`."""
        for suffix in ("svg", "png"):
            image = BytesIO()
            figure.savefig(image, format=suffix, dpi=150)
            write_atomically(self.path / f"figure.{suffix}", image.getvalue())

    def _read_info(self) -> Any:
        if not self._info.exists():
            if self.results.exists():
                raise BadInput(
                    f"{self.results} has no info.json beside it, so its seed and settings are "
                    f"unknown. {OTHERWISE}"
                )
            return None
        try:
            return json.loads(self._info.read_text())
        except ValueError as error:
            raise BadInput(f"{self._info} is not JSON: {error}. {OTHERWISE}") from None

    def _check_same(self, before: Any) -> float:
        """Raise unless the stored results are results of the same command."""
        now, holds = self._described, f"{self.path} holds results of"
        try:
            known = {name: before[name] for name in now}
            seconds = float(before["wall_seconds"])
            versions = [info["versions"]["aide-inference"] for info in (known, now)]
            digests = [info["data"] and info["data"]["sha256"] for info in (known, now)]
        except (KeyError, TypeError, ValueError):
            raise BadInput(
                f"{self._info} lacks facts that this version needs to continue. {OTHERWISE}"
            ) from None
        if digests[0] != digests[1]:
            changed = _changed(known["data"], now["data"])
            raise BadInput(f"{holds} other data: {changed} {OTHERWISE}")
        if any(known[name] != now[name] for name in ("seed", "settings")):
            raise BadInput(
                f"{holds} other settings (seed {known['seed']}, {known['settings']}). {OTHERWISE}"
            )
        if versions[0] != versions[1]:
            raise BadInput(f"{holds} aide {versions[0]}, and this is {versions[1]}. {OTHERWISE}")
        return seconds


def _changed(before: Any, now: Any) -> str:
    names = [data["file"] if data else "no data" for data in (before, now)]
    if names[0] == names[1]:
        return f"the content of {names[1]} has changed since."
    return f"they are of {names[0]}, and {names[1]} holds other numbers."


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("jax", "jaxlib", "equinox", "numpy")
    versions = {name: version(name) for name in names}
    return {"python": platform.python_version(), "aide-inference": __version__, **versions}


@dataclass(frozen=True)
class Options:
    """The options of the command line; `None` stands for the value of the scale."""

    scale: str = "default"
    seed: int = 0
    out: Path = Path("aide-reproduce")
    num_runs: int | None = None
    particles: tuple[int, ...] | None = None
    meta: tuple[int, ...] | None = None
    data: Path | None = None


class Job(NamedTuple):
    """A piece of work that yields rows; `weight` is its relative cost, for the progress bar."""

    settings: tuple[Row, ...]
    run: Callable[[], Sequence[Row]]
    weight: float


@dataclass
class Experiment:
    """One figure: its jobs, the function that draws it, and entries of `info.json`.

    `data` describes the source of its data (`source_of`), if it has any.
    """

    name: str
    jobs: list[Job]
    draw_figure: Callable[[list[Row]], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] | None = None


def run_experiment(experiment: Experiment, options: Options, console: Console) -> Path:
    """Make the rows that `results.csv` lacks; write results, figure and info.

    Raises:
        KeyboardInterrupt: With a message about the saved rows.
    """
    path = options.out / experiment.name
    folder = Folder(path, options.seed, experiment.settings, experiment.data)
    wanted = [row.setting for job in experiment.jobs for row in job.settings]
    done = {row.setting: row for row in folder.read_rows() if row.setting in set(wanted)}
    saved, begun = len(done), time.monotonic() - folder.seconds
    try:
        with _progress(console) as bar:
            task = bar.add_task(experiment.name, total=sum(job.weight for job in experiment.jobs))
            for job in experiment.jobs:
                if any(row.setting not in done for row in job.settings):
                    done.update({row.setting: row for row in job.run()})
                    folder.save_rows(done[setting] for setting in wanted if setting in done)
                    saved = len(done)
                    folder.save_info(time.monotonic() - begun)
                bar.update(task, advance=job.weight)
        folder.save_figure(experiment.draw_figure([done[setting] for setting in wanted]))
        folder.save_info(time.monotonic() - begun)
    except KeyboardInterrupt as stop:
        message = f"{saved} of {len(wanted)} rows are saved in {folder.results}"
        raise type(stop)(message) from None
    return path


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)
