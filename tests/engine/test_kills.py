"""A run killed at any moment, inside a write too, is finished by the same call, bit by bit."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support import kill_me

import aide

SCRIPT = Path(kill_me.__file__)
FORMATS = ["runs.nc", "runs.zarr"]


@pytest.fixture(scope="module")
def undisturbed():
    return kill_me.draw()


def _start(path, kill_at):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "support.kill_me", str(path), str(kill_at)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _finish(path, undisturbed):
    """The same call again, in this process."""
    again = kill_me.draw(path)
    for one, two in ((again.gold, undisturbed.gold), (again.target, undisturbed.target)):
        assert one.own.tobytes() == two.own.tobytes()
        assert one.cross.tobytes() == two.cross.tobytes()
        np.testing.assert_array_equal(one.values, two.values)
    assert aide.estimation.Estimate.load(path).value == aide.summarise(undisturbed).value


def _kill_at_random_moments(tmp_path, undisturbed, name, num):
    moments = random.Random(3)
    for number in range(num):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        process = _start(path, -1)
        assert process.stdout is not None
        assert process.stdout.readline() == "drawing\n"
        time.sleep(moments.uniform(0.0, 1.0))
        process.kill()
        process.communicate()
        _finish(path, undisturbed)


def _kill_inside_writes(tmp_path, undisturbed, name, num):
    counting = _start(tmp_path / name, 0)
    total = int(counting.communicate()[0].split()[-1])
    assert total >= num  # control: there are that many operations
    for number, kill_at in enumerate(np.linspace(1, total, num).astype(int)):
        path = tmp_path / str(number) / name
        path.parent.mkdir()
        process = _start(path, kill_at)
        process.communicate()
        assert process.returncode == -9, kill_at
        _finish(path, undisturbed)


@pytest.mark.parametrize("name", ["runs.nc", pytest.param("runs.zarr", marks=pytest.mark.full)])
def test_a_kill_at_any_moment(tmp_path, undisturbed, name):
    _kill_at_random_moments(tmp_path, undisturbed, name, 1)


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_forty_kills(tmp_path, undisturbed, name):
    _kill_at_random_moments(tmp_path, undisturbed, name, 40)


@pytest.mark.full
@pytest.mark.parametrize("name", FORMATS)
def test_a_kill_inside_a_write(tmp_path, undisturbed, name):
    _kill_inside_writes(tmp_path, undisturbed, name, 20)


@pytest.mark.parametrize("stage", range(1, 6))
def test_a_folder_is_whole_whatever_step_of_its_replacement_fails(
    tmp_path, undisturbed, monkeypatch, stage
):
    """The steps of replacing a zarr folder, stopped one by one without cleaning up after them."""
    path = tmp_path / "runs.zarr"
    half = kill_me.draw(path, num_gold=60)
    assert half.gold.num_runs == 60
    from aide.engine import files

    class Killed(BaseException):
        pass

    steps = iter(range(1, 100))

    def dying(function):
        def call(*arguments, **options):
            if next(steps) >= stage:
                raise Killed
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(files.os, "rename", dying(os.rename))
    monkeypatch.setattr(files.shutil, "rmtree", dying(files.shutil.rmtree))
    with pytest.raises(Killed):
        kill_me.draw(path)
    monkeypatch.undo()
    _finish(path, undisturbed)
