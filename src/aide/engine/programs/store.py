"""Compiled programs that outlive the process: JAX's own cache, in a folder of the user's.

JAX names a program by its lowered form, in which every constant is part, by the options of the
compiler and by the versions and the processor: a program that changed is compiled afresh. Tracing
and lowering are repeated in every process.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax

MAX_BYTES = 2**30
"""Size of the folder, in bytes, beyond which the programs not used for longest are dropped."""
_folder: Path | None = None


def keep_programs(folder: str | Path | None = None) -> None:
    """Keep compiled programs in a folder, so that the next process need not compile them again.

    Results are the same bits with and without it. A folder that cannot be written to is no error:
    a warning says so, and programs are compiled each time.

    Args:
        folder: Where; by default the user's cache folder (`$XDG_CACHE_HOME/aide`, `~/.cache/aide`).
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
    _use_cache_of_jax(path / "xla")


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


def _use_cache_of_jax(folder: Path) -> None:
    """Turn on JAX's own cache, for small programs too, unless somebody has done so already."""
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()  # it looks at the settings once
    except (ImportError, AttributeError):
        pass
