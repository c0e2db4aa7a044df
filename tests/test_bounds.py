"""The oldest versions that `pyproject.toml` allows are tested, and none runs foreign code."""

import json
import os
import pickle
import tomllib
from pathlib import Path

import pytest
import xarray
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def test_make_test_lowest_installs_the_bounds_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    stated = project["dependencies"] + extras["arviz"] + extras["zarr"]
    bounds = dict(line.split(">=") for line in stated)
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines)
    for name, bound in bounds.items():
        assert Version(pinned[name]) == Version(bound), name


class Pickled:
    """What `pickle` turns into a call of `os.mkdir`."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


PICKLE = {"id": "pickle", "protocol": 5}
TEXT = {"id": "vlen-utf8"}


def store_of_format_two(folder, dtype, filters, compressor, content):
    """A zarr store of format 2 with one array, written by hand."""
    (folder / "a").mkdir(parents=True)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / "a" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')
    shape = {"shape": [1], "chunks": [1], "order": "C", "dimension_separator": "."}
    codecs = {"filters": filters, "compressor": compressor}
    array = {"zarr_format": 2, "dtype": dtype, "fill_value": 0, **shape, **codecs}
    (folder / "a" / ".zarray").write_text(json.dumps(array))
    (folder / "a" / "0").write_bytes(content)
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("dtype", "filters", "compressor"),
    [
        ("<f8", [PICKLE], None),
        ("|O", [PICKLE], None),
        ("<f8", None, PICKLE),
        ("|O", [TEXT, PICKLE], None),
        ("|O", [TEXT], PICKLE),
    ],
)
def test_zarr_does_not_run_what_a_store_pickled(tmp_path, dtype, filters, compressor):
    """With numcodecs 0.16.5 the last two run the code, in zarr 3.0.8 all of them do."""
    trap = tmp_path / "trap"
    content = pickle.dumps(Pickled(str(trap)))
    folder = store_of_format_two(tmp_path / "s.zarr", dtype, filters, compressor, content)
    with pytest.raises(Exception, match="(?i)pickle|No Zarr data type"):
        xarray.open_zarr(folder, consolidated=False).load()
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists()  # control: the content is what it says it is
