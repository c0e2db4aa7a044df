"""Running an experiment: what is missing, with a progress bar, into a folder."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from aide.experiments.folder import Folder
from aide.experiments.table import Row


@dataclass(frozen=True)
class Options:
    """What the command line says. `None` means: as the scale has it."""

    scale: str = "default"
    seed: int = 0
    out: Path = Path("aide-reproduce")
    num_runs: int | None = None
    particles: tuple[int, ...] | None = None
    meta: tuple[int, ...] | None = None
    data: Path | None = None


class Job(NamedTuple):
    """A piece of work that yields some rows. `weight` is its relative cost, for the time left."""

    settings: tuple[Row, ...]
    run: Callable[[], Sequence[Row]]
    weight: float


@dataclass
class Experiment:
    """One figure: its jobs, how to draw it, and what to note in `info.json`.

    `data` is where its data come from (`source_of`), if it has any.
    """

    name: str
    jobs: list[Job]
    draw_figure: Callable[[list[Row]], Any]
    settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] | None = None


def run_experiment(experiment: Experiment, options: Options, console: Console) -> Path:
    """Do what `results.csv` does not hold yet; write results, figure and info.

    Raises:
        KeyboardInterrupt: With a message that says what is saved.
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
