"""Compiled programs that outlive the process: JAX's own cache, in a folder of the user.

JAX names a program by its lowered form, which contains every constant, by the options of the
compiler and by the versions and the processor: a program that changed is compiled anew. Tracing
and lowering are repeated in every process.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

from aide._core.jax_compat import keep_compiled_in

MAX_BYTES = 2**30
"""Size of the folder in bytes (1 GiB, a choice), above which the oldest programs are deleted."""
_folder: Path | None = None


def keep_programs(folder: str | Path | None = None) -> None:
    """Keep compiled programs in a folder, so that the next process need not compile them again.

    Results are the same bits with and without it. A folder that cannot be written to is no error:
    a warning says so, and programs are compiled each time.

    Args:
        folder: The folder; by default the user's (`$XDG_CACHE_HOME/aide`, `~/.cache/aide`).

    Returns:
        Nothing: programs that are compiled from now on are kept.
    """
    global _folder
    path = "the user's cache folder"
    try:
        path = _default_folder() if folder is None else Path(folder).expanduser().absolute()
        (path / "xla").mkdir(mode=0o700, parents=True, exist_ok=True)
        _prune(path / "xla")
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: no home
        warnings.warn(
            f"compiled programs cannot be kept in {path} ({error}): they will be compiled each "
            "time. Choose a writable folder: aide.keep_programs(folder).",
            stacklevel=2,
        )
        return
    _folder = path
    keep_compiled_in(str(path / "xla"))


def folder_of_programs() -> Path | None:
    """The folder given to `keep_programs`; `None` if programs are not kept."""
    return _folder


def _default_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return (Path(given) if given else Path.home() / usual) / "aide"


def _prune(folder: Path) -> None:
    files = [(path.stat(), path) for path in folder.iterdir()]
    total = 0
    for status, path in sorted(files, key=lambda file: -file[0].st_mtime):
        total += status.st_size
        if total > MAX_BYTES:
            path.unlink(missing_ok=True)
