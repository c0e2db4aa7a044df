"""Running an experiment: what is missing, with a progress bar, into a folder."""

import json
import platform
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

from aide.reproduce.table import Row, read_rows, write_rows


class BadInput(Exception):
    """Something the user passed cannot work; the message is one line."""


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
    """One figure: its jobs, how to draw it, and what to note in `info.json`."""

    name: str
    jobs: list[Job]
    draw_figure: Callable[[list[Row]], Any]
    settings: dict[str, Any] = field(default_factory=dict)


def run_experiment(experiment: Experiment, options: Options, console: Console) -> Path:
    """Do what `results.csv` does not hold yet; write results, figure and info."""
    folder = make_folder(options.out / experiment.name)
    info_path, results_path = folder / "info.json", folder / "results.csv"
    described = {"seed": options.seed, "settings": experiment.settings}
    described = json.loads(json.dumps(described))
    before = json.loads(info_path.read_text()) if info_path.exists() else {}
    if before and any(before[name] != described[name] for name in described):
        raise BadInput(
            f"{folder} holds results of other settings (seed {before['seed']}, "
            f"{before['settings']}). Choose another --out, or delete it."
        )
    wanted = [row.setting for job in experiment.jobs for row in job.settings]
    done = {row.setting: row for row in read_rows(results_path) if row.setting in set(wanted)}
    seconds = before.get("wall_seconds", 0.0)

    def save(more: float) -> None:
        write_rows(results_path, [done[setting] for setting in wanted if setting in done])
        info = {**described, "wall_seconds": round(seconds + more, 2), "versions": _versions()}
        info_path.write_text(json.dumps(info, indent=1) + "\n")

    begun = time.monotonic()
    with _progress(console) as bar:
        task = bar.add_task(experiment.name, total=sum(job.weight for job in experiment.jobs))
        for job in experiment.jobs:
            if any(row.setting not in done for row in job.settings):
                done.update({row.setting: row for row in job.run()})
                save(time.monotonic() - begun)
            bar.update(task, advance=job.weight)
    rows = [done[setting] for setting in wanted]
    figure = experiment.draw_figure(rows)
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"figure.{suffix}", dpi=150)
    save(time.monotonic() - begun)
    return folder


def make_folder(folder: Path) -> Path:
    """Create the folder, or say in one line why it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInput(
            f"cannot write to {folder}: {error.strerror}. Choose another --out."
        ) from None
    return folder


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


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("aide-inference", "jax", "jaxlib", "equinox", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
