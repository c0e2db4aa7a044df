"""Files and folders with draws: netCDF or zarr, whole or absent, never pickle."""

import io
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from aide._core.files import write_atomically
from aide.draws.draws import Draws
from aide.draws.storage.dataset import dataset_of, draws_of, kept_in, to_xarray
from aide.draws.storage.kept import Kept
from aide.draws.storage.safety import check_netcdf, check_zarr


def save(draws: Draws, path: str | Path) -> None:
    """Write a zarr folder if `path` ends in `.zarr`, else a netCDF file; replaced at once."""
    write_dataset(to_xarray(draws), Path(path))


def load(path: str | Path) -> Draws:
    """Read what `save` wrote, or the checkpoint of `aide.draw`."""
    return draws_of(*read_kept(Path(path)))


def save_kept(header: Draws, sides: tuple[Kept, Kept], path: Path) -> None:
    """Write what is known of both sides."""
    write_dataset(dataset_of(header, sides), path)


def read_kept(path: Path) -> tuple[Draws, tuple[Kept, Kept]]:
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
                return kept_in(dataset.load())
        check_netcdf(path)
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return kept_in(dataset.load())


def _no_cluster() -> AbstractContextManager[Any]:
    """Where a Dask client is the default, xarray asks its cluster for a lock; the data are here."""
    dask: Any = sys.modules.get("dask")
    return nullcontext() if dask is None else dask.config.set(scheduler="synchronous")


def exists(path: Path) -> bool:
    """Whether draws were saved there, also if writing the next ones was interrupted."""
    return path.exists() or (path.suffix == ".zarr" and _aside(path).exists())


def write_dataset(dataset: Any, path: Path) -> None:
    """Write it as a whole: a kill, an error or a full disk leaves what was there before."""
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
        reason = f"{error.strerror or error} (what was there is as it was)"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(_aside(path), ignore_errors=True)


def _aside(path: Path) -> Path:
    """Where the old folder waits while the new one takes its name."""
    return path.with_name(f".{path.name}.old")


def _recover(path: Path) -> None:
    """Finish what a kill interrupted: bring the old folder back, or remove it."""
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
    """Errors of the formats and of our own checks, with the path and what to do."""
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
