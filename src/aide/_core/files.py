"""Writing files: either the old one or the new one is there, whatever happens meanwhile."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


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
