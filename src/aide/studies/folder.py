"""The folder of a study: one process, one set of settings, results that only grow.

`study.json` describes the runs and is written before the first of them. Runs are in netCDF files
that `aide.draw` continues, and refuses if the algorithms changed. `result.json` is
written last.
"""

import hashlib
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aide._core.process import locked_folder, make_folder, write_atomically
from aide._version import __version__
from aide.experiments.runner import BadInput

OTHERWISE = "Choose another --out, or delete it."
"""Advice for a folder that cannot be continued."""
FORMAT = 1
"""Version of the format of `study.json`."""


class StudyFolder:
    """The files of one study."""

    def __init__(self, path: Path):
        self.path = path
        self.runs, self.info = path / "runs", path / "study.json"
        self.result, self.table = path / "result.json", path / "result.csv"
        self.report = path / "report.html"

    @contextmanager
    def opened(self, command: str, seed: int, settings: Any, names: list[str]) -> Iterator[None]:
        """Lock the folder; raise if it belongs to another command, seed or settings."""
        make_folder(self.path)
        with locked_folder(self.path):
            make_folder(self.runs)
            wanted = json.loads(
                json.dumps({"command": command, "seed": seed, "settings": settings, "names": names})
            )
            before = self._read()
            if before is None:
                facts = {"format": FORMAT, "versions": versions(), "begun": now()}
                write_atomically(self.info, _text({**wanted, **facts}))
            else:
                self._check(before, wanted)
            yield

    def checkpoint(self, name: str) -> Path:
        """The file of one target's runs, with a name that is valid on every system."""
        plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in name)[:40]
        return self.runs / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.nc"

    def save(self, data: dict[str, Any], table: str) -> None:
        """Write the result and its table."""
        write_atomically(self.table, table.encode())
        write_atomically(self.result, _text(data))

    def load(self) -> dict[str, Any]:
        """Read the result."""
        if not self.result.exists():
            is_begun = self.info.exists()
            why = "It is not finished: the command that made it continues." if is_begun else ""
            raise BadInput(f"{self.path} holds no result.json. {why or 'No command made it.'}")
        try:
            return json.loads(self.result.read_text())
        except ValueError as error:
            raise BadInput(f"{self.result} is not JSON: {error}. {OTHERWISE}") from None

    def _read(self) -> dict[str, Any] | None:
        if not self.info.exists():
            return None
        try:
            return json.loads(self.info.read_text())
        except ValueError as error:
            raise BadInput(f"{self.info} is not JSON: {error}. {OTHERWISE}") from None

    def _check(self, before: dict[str, Any], wanted: dict[str, Any]) -> None:
        changed = [name for name, value in wanted.items() if before.get(name) != value]
        if changed:
            was = ", ".join(f"{name} {before.get(name)!r}" for name in changed)
            raise BadInput(f"{self.path} holds a study with {was}. {OTHERWISE}")
        known = before.get("versions", {}).get("aide-inference")
        if known != __version__:
            raise BadInput(
                f"{self.path} holds runs of aide {known}, not {__version__}. {OTHERWISE}"
            )


def versions() -> dict[str, str]:
    """Versions of everything that numbers may depend on."""
    names = ("jax", "jaxlib", "equinox", "numpy", "scipy")
    found = {name: version(name) for name in names}
    return {"python": platform.python_version(), "aide-inference": __version__, **found}


def now() -> str:
    """Date and time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _text(data: Any) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
