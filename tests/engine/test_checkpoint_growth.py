"""A checkpoint only ever grows: runs, columns and outputs that it has stay there."""

import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support import kill_me
from support.pairs import assert_same

import aide
from aide.engine.files import read_runs


def _size(path):
    _, (gold, target) = read_runs(path)
    return np.array([gold.size, target.size])


@pytest.mark.parametrize("name", ["runs.nc", pytest.param("runs.zarr", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "smaller",
    [
        {"num_gold": 10, "num_target": 10},
        {"keep_values": False},
        pytest.param({"num_target": 200, "num_meta_target": 1}, marks=pytest.mark.full),
        pytest.param({"num_meta_target": 1}, marks=pytest.mark.full),
        pytest.param({"measure_looseness": False}, marks=pytest.mark.full),
        pytest.param({"num_gold": 10, "num_meta_gold": 3}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_a_smaller_request_takes_nothing_away(tmp_path, name, smaller):
    path = tmp_path / name
    aide_draw = lambda **options: kill_me.draw(path, **options)
    whole = aide_draw()
    before = _size(path)
    part = aide_draw(**{"keep_values": True, **smaller})
    assert (_size(path) >= before).all()
    assert_same(part, kill_me.draw(**smaller))  # what was asked for, no more and no less
    assert_same(aide_draw(), whole)
    assert_same(
        aide_draw(num_gold=130, num_meta_gold=3), kill_me.draw(num_gold=130, num_meta_gold=3)
    )


def test_nothing_new_writes_nothing(tmp_path):
    path = tmp_path / "runs.nc"
    kill_me.draw(path)
    written = path.stat().st_mtime_ns
    kill_me.draw(path, num_gold=20)
    assert path.stat().st_mtime_ns == written


def test_runs_with_unequal_numbers_of_meta_runs_load_with_those_they_share(tmp_path):
    """A saved M that only some runs have must not be taken for that of all."""
    path = tmp_path / "runs.nc"
    kill_me.draw(path)
    kill_me.draw(path, num_gold=10, num_target=10, num_meta_target=5)
    loaded = aide.engine.load(path)
    assert loaded.target.num_meta == 2
    assert loaded.gold.cross.shape == (120, 2)
    assert_same(loaded, kill_me.draw())


@pytest.mark.parametrize("name", ["runs.nc", "runs.zarr"])
def test_a_full_disk_is_an_error_and_the_old_file_stays(tmp_path, name):
    """The system refuses to write more than a few bytes, as a full disk would."""
    path = tmp_path / name
    kill_me.draw(path, num_gold=30)
    before = _size(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=rf"the old file is unchanged.*{name}"):
            kill_me.draw(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    np.testing.assert_array_equal(_size(path), before)
    assert not [f for f in tmp_path.iterdir() if f.name != name]
    assert_same(kill_me.draw(path), kill_me.draw())


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, -2, marks=pytest.mark.full)],
)
def test_a_signal_saves_what_was_finished_and_says_how_to_go_on(tmp_path, number, code):
    path = tmp_path / "runs.nc"
    script = (
        "import sys\nfrom support import kill_me\n"
        "kill_me.SlowNormal.pause = 0.01\nprint('drawing', flush=True)\n"
        f"kill_me.draw({str(path)!r}, num_gold=10000)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "drawing\n"
    while not path.exists():
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(number)
    errors = process.communicate()[1]
    assert process.returncode in (code, 130), errors
    assert f"kept in {path}; the same call continues" in errors
    assert aide.engine.load(path).gold.num_runs > 0
