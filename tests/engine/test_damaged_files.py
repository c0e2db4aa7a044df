"""Files that were damaged or made to do harm: an error that names them, never other numbers."""

import json
import random
import shutil

import h5py
import numpy as np
import pytest
from support import kill_me
from support.pairs import assert_same

import aide


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def draws(folder):
    draws = kill_me.draw(num_gold=12, num_target=9)
    for name in ("runs.nc", "runs.zarr"):
        aide.engine.save(draws, folder / name)
    return draws


@pytest.fixture
def path(folder, draws, tmp_path):
    """A copy of the netCDF file, to damage."""
    return shutil.copy(folder / "runs.nc", tmp_path / "runs.nc")


def _load(path):
    return aide.engine.load(path)


def _is_refused(path, draws):
    """Whether loading raises with the path in the message; otherwise the numbers are the same."""
    try:
        loaded = _load(path)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
        assert_same(loaded, draws)
        assert loaded.gold.name == draws.gold.name
    assert not message or (str(path) in message and "draw afresh" in message)
    return bool(message)


@pytest.mark.parametrize("num", [25, pytest.param(120, marks=pytest.mark.full)])
def test_a_flipped_bit_never_gives_other_numbers(path, draws, num):
    content, flips, refused = path.read_bytes(), random.Random(5), 0
    for _ in range(num):
        damaged = bytearray(content)
        damaged[flips.randrange(len(content))] ^= 1 << flips.randrange(8)
        path.write_bytes(damaged)
        refused += _is_refused(path, draws)
    assert refused > num / 4  # control: the flips do reach the data


@pytest.mark.parametrize("num", [12, pytest.param(120, marks=pytest.mark.full)])
def test_a_flipped_bit_in_zarr(folder, draws, tmp_path, num):
    flips, refused = random.Random(6), 0
    files = sorted(f for f in (folder / "runs.zarr").rglob("*") if f.is_file())
    for number in range(num):
        path = tmp_path / f"{number}.zarr"
        shutil.copytree(folder / "runs.zarr", path)
        victim = path / flips.choice(files).relative_to(folder / "runs.zarr")
        damaged = bytearray(victim.read_bytes())
        damaged[flips.randrange(len(damaged))] ^= 1 << flips.randrange(8)
        victim.write_bytes(damaged)
        refused += _is_refused(path, draws)
    assert refused > num / 4


@pytest.mark.parametrize(
    "content", [b"", b"not a file of ours", None], ids=["empty", "text", "cut"]
)
def test_a_truncated_or_foreign_file(path, content):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(ValueError, match=r"runs\.nc cannot be used.*draw afresh"):
        _load(path)
    with pytest.raises(ValueError, match=r"runs\.nc cannot be used"):
        kill_me.draw(path)


def test_data_of_another_program(tmp_path):
    import xarray as xr

    xr.Dataset({"a": ("x", np.zeros(3))}).to_netcdf(tmp_path / "runs.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="holds no draws of aide"):
        _load(tmp_path / "runs.nc")


def test_a_stored_nan_is_no_value(draws, tmp_path):
    draws.gold.own[0, 0], kept = np.nan, draws.gold.own[0, 0]
    try:
        aide.engine.save(draws, tmp_path / "runs.nc")
        with pytest.raises(ValueError, match="nan"):
            _load(tmp_path / "runs.nc")
        with pytest.raises(ValueError, match="nan"):
            kill_me.draw(num_gold=12, num_target=9, extend=draws)
    finally:
        draws.gold.own[0, 0] = kept


@pytest.mark.parametrize("kind", ["link", "soft link", "storage", "virtual", "filter", "group"])
def test_nothing_outside_of_the_file_is_read(path, tmp_path, kind):
    name, secret = "log_xi_gold_at_gold", tmp_path / "secret"
    secret.write_bytes(np.arange(24.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = np.zeros((12, 2))
    with h5py.File(path, "a") as file:
        array = file[name][:]
        del file[name]
        if kind == "link":
            file[name] = h5py.ExternalLink(str(tmp_path / "other.h5"), "x")
        elif kind == "soft link":
            file[name] = h5py.SoftLink("/log_xi_target_at_gold")
        elif kind == "storage":
            file.create_dataset(name, array.shape, "f8", external=[(str(secret), 0, 192)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((12, 2), "f8")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (12, 2))
            file.create_virtual_dataset(name, layout)
        elif kind == "filter":
            file.create_dataset(name, data=array, compression="gzip")
        else:
            file.create_group(name)
    with pytest.raises(ValueError, match=rf"cannot be used: '{name}' is"):
        _load(path)


@pytest.mark.parametrize("kind", ["format 2", "codec", "objects"])
def test_a_zarr_store_that_may_run_code_is_not_opened(folder, draws, tmp_path, kind):
    path = tmp_path / "runs.zarr"
    shutil.copytree(folder / "runs.zarr", path)
    victim = path / "log_xi_gold_at_gold"
    if kind == "format 2":
        (victim / "zarr.json").unlink()
        (victim / ".zarray").write_text(
            json.dumps({"zarr_format": 2, "filters": [{"id": "pickle"}]})
        )
    else:
        described = json.loads((victim / "zarr.json").read_text())
        if kind == "codec":
            described["codecs"].append({"name": "numcodecs.pickle", "configuration": {}})
        else:
            described["data_type"] = {"name": "structured", "configuration": {}}
        (victim / "zarr.json").write_text(json.dumps(described))
    with pytest.raises(ValueError, match=r"runs\.zarr cannot be used.*(format 2|codecs|plain)"):
        _load(path)


def test_share_takes_draws_only():
    with pytest.raises(TypeError, match="share must be draws or an estimate.*got 5"):
        kill_me.draw(share=5)


def test_a_read_only_folder_is_named(tmp_path, monkeypatch):
    import errno
    import os

    path = tmp_path / "runs.nc"

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match=r"Read-only.*runs\.nc"):
        kill_me.draw(path)
