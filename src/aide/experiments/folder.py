"""The folder of one experiment: whose results it holds, and how they get there.

`info.json` is written before the first result, and says what the results are results of: seed,
settings, the data's digest, the version of the library. Every file is replaced at once. A kill at
any moment therefore leaves a folder that the same command continues, and that no other command
mixes its own results into.
"""

import json
import platform
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from aide._core.files import make_folder, write_atomically
from aide._version import __version__
from aide.experiments.bad_input import BadInput
from aide.experiments.table import Row, format_rows, parse_rows

OTHERWISE = "Choose another --out, or delete it."


class Folder:
    """Results, figure and settings of one experiment on disk.

    Args:
        path: The folder; it is made, or what it holds is continued.
        seed: Seed of all runs.
        settings: Everything else that the results depend on, as JSON.
        data: The entry of `source_of`, or `None` where an experiment has no data.
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
        """The rows that are there already."""
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
                    f"{self.results} has no info.json beside it, so nobody knows its seed and "
                    f"settings. {OTHERWISE}"
                )
            return None
        try:
            return json.loads(self._info.read_text())
        except ValueError as error:
            raise BadInput(f"{self._info} is not JSON: {error}. {OTHERWISE}") from None

    def _check_same(self, before: Any) -> float:
        """Raise unless the results here are results of the same command."""
        now, holds = self._described, f"{self.path} holds results of"
        try:
            known = {name: before[name] for name in now}
            seconds = float(before["wall_seconds"])
            versions = [info["versions"]["aide-inference"] for info in (known, now)]
            digests = [info["data"] and info["data"]["sha256"] for info in (known, now)]
        except (KeyError, TypeError, ValueError):
            raise BadInput(
                f"{self._info} does not say what this version needs to continue. {OTHERWISE}"
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
