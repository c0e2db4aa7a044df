"""Programs that outlive the process: compiled code in a folder of the user's.

Two caches lie there. JAX's own is keyed by the lowered program, so nothing can make it stale, but
tracing and lowering are repeated each time. Ours holds whole executables and skips those too; its
keys are everything the program is made of (`stored_program`), and it serves programs only in which
all code belongs to installed packages: a user's helper module may change unseen.
"""

import hashlib
import io
import os
import pickle
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax

MOST_BYTES = 2**30
"""Programs that were not used for longest are dropped beyond that."""
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
        for part in ("programs", "xla"):
            (path / part).mkdir(mode=0o700, parents=True, exist_ok=True)
            _prune(path / part)
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


class StoredProgram:
    """What the folder holds, or will hold, of one program. Whatever is wrong there, it is empty."""

    def __init__(self, folder: Path, name: str):
        self._folder, self._name = folder, name

    def load_facts(self) -> Any:
        """What `save_facts` was given; `None` if nothing is there."""
        return self._load("facts", pickle.loads)

    def save_facts(self, facts: Any) -> None:
        """Keep what is known of the program without running it."""
        self._save("facts", lambda: pickle.dumps(facts))

    def load_executable(self, size: int, device: Any) -> Any:
        """The program for chunks of that size; `None` if it is not there."""

        def load(content: bytes) -> Any:
            from jax.experimental import serialize_executable

            return serialize_executable.deserialize_and_load(
                *pickle.loads(content), backend=device.client, execution_devices=[device]
            )

        return self._load(str(size), load)

    def save_executable(self, size: int, compiled: Any) -> None:
        """Keep the program for chunks of that size."""

        def dump() -> bytes:
            from jax.experimental import serialize_executable

            return pickle.dumps(serialize_executable.serialize(compiled))

        self._save(str(size), dump)

    def _load(self, part: str, load: Any) -> Any:
        path = self._folder / f"{self._name}-{part}"
        try:
            with path.open("rb") as file:
                if not _is_private(os.fstat(file.fileno())):
                    return None
                digest, content = file.read(32), file.read()
            if hashlib.sha256(content).digest() != digest:
                return None
            found = load(content)
            os.utime(path)
        except Exception:  # damaged, of another version, or gone: compiled afresh
            return None
        return found

    def _save(self, part: str, dump: Any) -> None:
        try:
            content = dump()
            file, name = tempfile.mkstemp(dir=self._folder)
            with io.FileIO(file, "w") as stream:
                stream.write(hashlib.sha256(content).digest() + content)
            Path(name).replace(self._folder / f"{self._name}-{part}")
        except Exception:  # a full disk, an output that cannot be pickled: not kept
            return


def stored_program(*key: Any) -> StoredProgram | None:
    """The entry of a program under everything it depends on; `None` if it cannot be kept.

    Loading executables may run code that lies in the files, so the folder must be the user's alone.
    """
    if _folder is None:
        return None
    folder = _folder / "programs"
    try:
        is_safe = stat.S_ISDIR(folder.lstat().st_mode) and _is_private(folder.lstat())
    except OSError:
        return None
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    return StoredProgram(folder, name) if is_safe else None


def _is_private(status: os.stat_result) -> bool:
    """Whether it belongs to this user and nobody else may touch it; elsewhere than on POSIX, no."""
    return hasattr(os, "getuid") and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _default_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return (Path(given) if given else Path.home() / usual) / "aide"


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


def _prune(folder: Path) -> None:
    files = [(path.stat(), path) for path in folder.iterdir()]
    total = 0
    for status, path in sorted(files, key=lambda file: -file[0].st_mtime):
        total += status.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
