"""Files from elsewhere: what is read must be plain numbers inside the file itself."""

import json
from pathlib import Path
from typing import Any

_CODECS = {"bytes", "zstd"}


def check_netcdf(path: Path) -> None:
    """Raise unless an HDF5 file holds plain arrays only.

    External links and external storage would read other files of this machine, filters may load
    code, and virtual data sets do the former in disguise.
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
