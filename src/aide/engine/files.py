"""Files and folders with draws: netCDF or zarr, complete or absent, never pickle.

A checkpoint is such a file; it stores finished runs and only ever grows.
"""

import io
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from aide._core.process import (
    Terminated,
    exit_code,
    in_main_thread,
    signals_delayed,
    terminable,
    write_atomically,
)
from aide.engine.dataset import dataset_of, draws_of, runs_in, to_xarray
from aide.engine.draws import NO_RUNS, Draws, Runs


def save(draws: Draws, path: str | Path) -> None:
    """Write a zarr folder if `path` ends in `.zarr`, else a netCDF file, replaced at once.

    Args:
        draws: What `aide.draw` returned.
        path: The file, whose name ends in `.nc`, or a folder whose name ends in `.zarr`.

    Returns:
        Nothing: the file is there when the call returns.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> import tempfile
        >>> aide.engine.save(aide.draw(0, exact, fit), tempfile.mkdtemp() + "/draws.nc")
    """
    write_dataset(to_xarray(draws), Path(path))


def load(path: str | Path) -> Draws:
    """Read a file that `save` wrote, or a checkpoint of `aide.draw`.

    Args:
        path: The file or zarr folder.

    Returns:
        The draws, from which `aide.summarise` makes an estimate.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/draws.nc"
        >>> draws = aide.draw(0, exact, fit, num_gold=50, num_target=50)
        >>> aide.engine.save(draws, path)
        >>> aide.summarise(aide.engine.load(path)).value == aide.summarise(draws).value
        True
    """
    return draws_of(*read_runs(Path(path)))


def read_runs(path: Path) -> tuple[Draws, tuple[Runs, Runs]]:
    """Read settings and runs; every error names the path."""
    import xarray as xr

    if path.suffix == ".zarr":
        _recover(path)
    if not path.exists():
        raise FileNotFoundError(f"no saved draws at {path}.")
    with _named(path):
        if path.suffix == ".zarr":
            check_zarr(path)
            with xr.open_zarr(path, consolidated=False, zarr_format=3) as dataset:
                return runs_in(dataset.load())
        check_netcdf(path)
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return runs_in(dataset.load())


def _no_cluster() -> AbstractContextManager[Any]:
    """Keep xarray from asking the cluster of a default Dask client for a lock: data are local."""
    dask: Any = sys.modules.get("dask")
    return nullcontext() if dask is None else dask.config.set(scheduler="synchronous")


def exists(path: Path) -> bool:
    """Whether draws were saved there, also if a later write was interrupted."""
    return path.exists() or (path.suffix == ".zarr" and _aside(path).exists())


def write_dataset(dataset: Any, path: Path) -> None:
    """Write a dataset as a whole: a kill, an error or a full disk leaves the old file."""
    if path.suffix != ".zarr":
        buffer = io.BytesIO()
        with _no_cluster():
            dataset.to_netcdf(buffer, engine="h5netcdf")
        write_atomically(path, buffer.getvalue())
        return
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with _no_cluster():
            dataset.to_zarr(partial, mode="w", consolidated=False, zarr_format=3)
        for file in partial.rglob("*"):
            if file.is_file():
                _sync(file)
        _recover(path)
        if path.exists():
            os.rename(path, _aside(path))
        os.rename(partial, path)
    except OSError as error:
        reason = f"{error.strerror or error} (the old file is unchanged)"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(_aside(path), ignore_errors=True)


def _aside(path: Path) -> Path:
    """The place of the old folder while the new one takes its name."""
    return path.with_name(f".{path.name}.old")


def _recover(path: Path) -> None:
    """Finish an interrupted write: bring the old folder back, or remove it."""
    if _aside(path).exists():
        if path.exists():
            shutil.rmtree(_aside(path), ignore_errors=True)
        else:
            os.rename(_aside(path), path)


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Add the path and advice to errors of the formats and of the checks."""
    try:
        yield
    except (ImportError, PermissionError):
        raise
    except Exception as error:  # h5py, zarr and xarray raise many kinds for broken files
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{path} cannot be used: {reason}. It is damaged or was not written by this version of "
            "aide; choose another file, or delete it and draw afresh."
        ) from error


_CODECS = {"bytes", "zstd"}
"""Codecs of zarr arrays that are read: they execute no code."""


def check_netcdf(path: Path) -> None:
    """Raise unless an HDF5 file holds plain arrays only.

    External links, external storage and virtual data sets would read other files of this machine,
    and filters may load code.
    """
    import h5py

    with h5py.File(path, "r") as file:
        for name in file:
            link: Any = file.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise ValueError(f"{name!r} is a link to something else, which is not followed")
            part: Any = file[name]
            if not isinstance(part, h5py.Dataset):
                raise ValueError(f"{name!r} is not an array")
            if part.external is not None or part.is_virtual:
                raise ValueError(f"{name!r} is stored outside of the file, which is not read")
            if part.id.get_create_plist().get_nfilters():
                raise ValueError(f"{name!r} is filtered, as no file of aide is")


def check_zarr(path: Path) -> None:
    """Raise unless a folder is a zarr store of format 3 with plain numbers.

    Format 2 knows codecs that unpickle, which executes code.
    """
    for folder in (path, *(child for child in path.iterdir() if child.is_dir())):
        if any((folder / name).exists() for name in (".zgroup", ".zarray", ".zattrs")):
            raise ValueError("it is a zarr store of format 2, which may hold code")
        described = json.loads((folder / "zarr.json").read_text())
        if described["zarr_format"] != 3:
            raise ValueError(f"it is a zarr store of format {described['zarr_format']}, not 3")
        names = {codec["name"] for codec in described.get("codecs", ())}
        if not names <= _CODECS:
            raise ValueError(f"{folder.name!r} uses the codecs {sorted(names - _CODECS)}")
        if not isinstance(described.get("data_type", ""), str):
            raise ValueError(f"{folder.name!r} does not hold plain numbers")


SAVE_EVERY = 30.0
"""Seconds between two writes of a checkpoint (a choice); every end of a run writes one too."""


class Checkpoint:
    """The file of one call of `aide.draw`."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.header: Draws | None = None
        self.stored: tuple[Runs, Runs] = (NO_RUNS, NO_RUNS)
        if exists(self.path):
            self.header, self.stored = read_runs(self.path)
        self._written = None if self.header is None else _size(self.stored)
        self._last = time.monotonic()

    def save(self, header: Draws, sides: tuple[Runs, Runs]) -> None:
        """Write all runs, unless the file holds them; signals wait until the file is written."""
        if self._written == _size(sides):
            return
        with signals_delayed():
            write_dataset(dataset_of(header, sides), self.path)
        self._written, self._last = _size(sides), time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the last write is more than `SAVE_EVERY` ago."""
        return time.monotonic() - self._last > SAVE_EVERY

    @contextmanager
    def saved_at_the_end(self, save: Callable[[], None]) -> Iterator[None]:
        """Save after the work, also after Ctrl-C, SIGTERM or an error; then say how to continue.

        SIGTERM ends the program with exit code 143, unless the program handles the signal itself.
        """
        how = f"What was finished is kept in {self.path}; the same call continues there."
        unhandled = in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with terminable() if unhandled else nullcontext():
            try:
                yield
            except BaseException as error:
                save()
                error.add_note(how)
                if unhandled and isinstance(error, Terminated):
                    print(how, file=sys.stderr)
                    raise SystemExit(exit_code(error)) from error
                raise
            save()


def _size(sides: tuple[Runs, Runs]) -> tuple[tuple[int, ...], ...]:
    return sides[0].size, sides[1].size
