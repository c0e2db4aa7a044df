"""Writing files: either the old one or the new one is there, whatever happens meanwhile."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without file locks: two processes are not told apart there
    fcntl = None


def write_atomically(path: str | Path, data: bytes) -> None:
    """Replace the file at `path` by `data`, at once.

    The bytes go to a new file beside it, reach the disk, and take the name `path` in one step: a
    reader, a kill or a power cut finds all of the old content or all of the new. Two writers at
    the same time do not mix. A kill may leave the new file behind, hidden, as
    `.NAME.….partial`; nothing ever reads it.

    Raises:
        OSError: Nothing was written (disk full, read-only folder, …) and the old file is intact.
            The error keeps its `errno`, hence its class, and names the path.
    """
    path = Path(os.path.realpath(path))  # a link stays a link to the new content
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        _write_new(partial, data)
        os.replace(partial, path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            kept = "the file is as it was" if path.exists() else "nothing was written"
            raise OSError(error.errno, f"{reason} ({kept})", str(path)) from error
        raise
    _sync_folder(path.parent)


def make_folder(folder: Path) -> Path:
    """Create the folder, and try it out: better now than after an hour of work.

    Raises:
        OSError: Nothing can be written there. The error names the folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{secrets.token_hex(4)}.partial"
        _write_new(probe, b"")
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(folder)) from error
    return folder


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder alone: a second process is refused, and a kill sets it free.

    Raises:
        InUse: Another process works there.
    """
    with (folder / ".lock").open("a+b") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                owner = file.read().decode(errors="replace").strip() or "unknown"
                raise InUse(folder, owner) from error
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n".encode())
            file.flush()
        yield


class InUse(Exception):
    """Another process works in the folder."""

    def __init__(self, folder: Path, owner: str):
        super().__init__(
            f"another process (number {owner}) works in {folder}: wait for it, or choose another "
            "--out."
        )


def _write_new(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk. Not every system can; the content is there either way."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
