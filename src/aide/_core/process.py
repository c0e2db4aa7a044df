"""What keeps files whole if this process is stopped at any moment; and an error for forks.

- Signals: Ctrl-C and SIGTERM become one exception, which ends the work in order, or wait until a
  file is written. Handlers of signals are changed inside of a `with` block only, and put back at
  its end.
- Files: at every moment a file has its old content or its new content, never a part of either.
- Forks: the child of a process that has run JAX would hang; the child raises an error instead.
"""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; code that handles Ctrl-C handles this exception, too."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code that shells expect: 128 plus the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def reason_to_stop(stop: KeyboardInterrupt) -> str:
    """Return the words in which a command says why it ended."""
    return "stopped by SIGTERM" if isinstance(stop, Terminated) else "stopped by Ctrl-C"


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, which otherwise ends the process at once.

    Only the main thread may call this: signals arrive there.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if before is not None:  # a handler that Python did not set cannot be set again
            signal.signal(signal.SIGTERM, before)


@contextmanager
def signals_delayed() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the `with` block ends.

    A signal while HDF5 writes would leave the state of HDF5 undefined.
    """
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler is not None}
    if not in_main_thread():
        before = {}
    for number in before:
        signal.signal(number, lambda number, frame: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


def in_main_thread() -> bool:
    """Whether this thread is the main one, the only one in which Python delivers signals."""
    return threading.current_thread() is threading.main_thread()


class Temporarily:
    """A change of this process that lasts while a `with` block is open in any thread.

    The first block that opens makes the change, and the last one that closes undoes it.

    Args:
        change: Makes the change, and returns the function that undoes it.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]):
        self._change = change
        self._lock = threading.Lock()
        self._num_open = 0
        self._undo: Callable[[], None] = lambda: None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Open a block."""
        with self._lock:
            if self._num_open == 0:
                self._undo = self._change()
            self._num_open += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_open -= 1
                if self._num_open == 0:
                    self._undo()


_first_process: int | None = None
"""Number of the process that called `check_not_forked` first; forks inherit the number."""


def check_not_forked() -> None:
    """Raise in a fork of the process that called this function first.

    `fork` copies the memory of JAX but not its threads, for which the child would wait for ever.
    """
    global _first_process
    if _first_process is None:
        _first_process = os.getpid()
    if _first_process != os.getpid():
        raise RuntimeError(
            f"this process ({os.getpid()}) was forked from one that has already run aide "
            f"({_first_process}), where JAX would hang. Start it afresh instead: "
            "multiprocessing.get_context('spawn') or ProcessPoolExecutor(mp_context=...), joblib's "
            "loky; or fork before anything runs."
        )


try:
    import fcntl
except ImportError:  # a system without file locks, where `locked_folder` locks nothing
    fcntl = None


def write_atomically(path: str | Path, data: bytes) -> None:
    """Replace the content of the file at `path` by `data` in one step.

    The bytes go to a new file beside the old one, reach the disk, and take the name `path` in one
    step: a reader, a kill or a power cut finds all of the old content or all of the new. Two
    writers at the same time do not mix. A kill may leave the new file behind, hidden, as
    `.NAME.….partial`; nothing ever reads that file.

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
            kept = "the old file is unchanged" if path.exists() else "nothing was written"
            raise OSError(error.errno, f"{reason} ({kept})", str(path)) from error
        raise
    _sync_folder(path.parent)


def make_folder(folder: Path) -> Path:
    """Create the folder, and write a file there: an error shows now, not after an hour of work.

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
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; the lock ends with the block or with the process.

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
    """Write the new name of a file to the disk, on systems that can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
