"""Whenever `aide reproduce` ends, the same command continues and the results are bit-identical."""

import errno
import json
import os
import random
import signal
import subprocess
import sys

import pytest
from support import tiny_experiment
from support.tiny_experiment import tiny
from typer.testing import CliRunner

from aide._core import process as _files
from aide.cli import app
from aide.experiments import command, demo

NUM_WRITES = 1 + 2 * 12 + 3
"""`info.json`, two files for each of twelve jobs, then two figures and `info.json`."""


@pytest.fixture(autouse=True)
def _interruptible():
    """A shell in the background makes its children ignore Ctrl-C; here it counts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Killed(BaseException):
    """The process ends here: nothing after this runs."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """`results.csv` of a run that nothing disturbs."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(command.EXPERIMENTS, "tiny", lambda options: tiny(options, 0.0))
        assert CliRunner().invoke(app, ["reproduce", "tiny", "--out", str(out)]).exit_code == 0
    return results(out)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setitem(command.EXPERIMENTS, "tiny", lambda options: tiny(options, 0.0))

    def run(*arguments):
        words = ["reproduce", "tiny", "--out", str(tmp_path / "out"), *arguments]
        return CliRunner().invoke(app, words)

    return run


def results(folder):
    return (folder / "tiny" / "results.csv").read_bytes()


def stop_a_write(monkeypatch, position, step, error):
    """Let the write at `position` (from 1) end with `error` before, in the middle of, or after it.

    With `Killed` the unfinished file is not cleaned up, as nobody is there to do it.
    """
    real_write, real_replace, count = _files._write_new, os.replace, 0

    def write(path, data):
        nonlocal count
        count += data != b""  # the trial of the folder is empty
        if count == position and step in ("before", "half"):
            if step == "half":
                real_write(path, data[: len(data) // 2])
            raise error
        real_write(path, data)

    def replace(source, target):
        if count == position and step == "written":
            raise error
        real_replace(source, target)
        if count == position and step == "replaced":
            raise error

    monkeypatch.setattr(_files, "_write_new", write)
    monkeypatch.setattr(os, "replace", replace)
    if isinstance(error, Killed):
        monkeypatch.setattr(_files.Path, "unlink", lambda path, **options: None)
    return lambda: count


STEPS = ["before", "half", "written", "replaced"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("position", [1, 2, 13, 26])
def test_a_kill_inside_a_write_changes_nothing(tmp_path, run, whole, position, step):
    with pytest.MonkeyPatch.context() as patch:
        stop_a_write(patch, position, step, Killed())
        with pytest.raises(Killed):
            run()
    if (tmp_path / "out" / "tiny" / "results.csv").exists():
        assert run("--seed", "1").exit_code == 2  # what is there is known to be seed 0's
    assert run().exit_code == 0
    assert results(tmp_path / "out") == whole
    info = json.loads((tmp_path / "out" / "tiny" / "info.json").read_text())
    assert info["seed"] == 0


def test_the_kills_are_inside_all_writes(run, monkeypatch):
    count = stop_a_write(monkeypatch, -1, "before", Killed())
    assert run().exit_code == 0
    assert count() == NUM_WRITES


@pytest.mark.parametrize("position", [1, 5])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, run, whole, position):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.MonkeyPatch.context() as patch:
        stop_a_write(patch, position, "half", full)
        result = run()
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert f"aide reproduce: cannot write to {tmp_path}" in line
    assert "No space left on device" in line
    assert not list((tmp_path / "out").rglob("*.partial"))
    assert run().exit_code == 0
    assert results(tmp_path / "out") == whole


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_signal_says_what_is_saved_and_how_to_go_on(tmp_path, run, whole, number, code, word):

    def stop():
        signal.raise_signal(number)
        return []

    def stopped(options):
        experiment = tiny(options, 0.0)
        experiment.jobs[4] = experiment.jobs[4]._replace(run=stop)
        return experiment

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(command.EXPERIMENTS, "tiny", stopped)
        result = run()
    assert result.exit_code == code
    path = tmp_path / "out" / "tiny" / "results.csv"
    assert result.stderr == (
        f"aide reproduce: stopped by {word}: 4 of 12 rows are saved in {path}. "
        "The same command continues.\n"
    )
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert run().exit_code == 0
    assert results(tmp_path / "out") == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_demo_with_a_line(tmp_path, monkeypatch, number, code):
    monkeypatch.setattr(demo, "measure_filters", lambda seed: signal.raise_signal(number))
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == code
    assert "nothing is saved. The same command starts again." in result.stderr.splitlines()[-1]


def run_with_kills(moments, *arguments):
    """Run `aide reproduce`, killed at each moment, then to its end."""
    text = ",".join(f"{moment:.4f}" for moment in moments)
    words = [sys.executable, tiny_experiment.__file__, text, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=True)


@pytest.mark.full
def test_ten_kills_at_random_moments(tmp_path, whole):
    """A whole run takes about 0.2 seconds, so most kills hit it."""
    moments = [random.Random(5).uniform(0.0, 0.15) for _ in range(10)]
    run_with_kills(moments, "tiny", "--out", tmp_path / "out")
    assert results(tmp_path / "out") == whole


@pytest.mark.full
def test_forty_kills_of_a_real_experiment(tmp_path):
    """Kills within the first 20 seconds: compiling, running, writing, drawing."""
    small = ("bimodal", "--scale", "smoke", "--num-runs", 5, "--particles", "1,2", "--out")
    run_with_kills([0.0], *small, tmp_path / "whole")
    moments = [random.Random(7).uniform(0.0, 20.0) for _ in range(40)]
    run_with_kills(moments, *small, tmp_path / "out")
    one, two = (tmp_path / out / "bimodal" / "results.csv" for out in ("whole", "out"))
    assert one.read_bytes() == two.read_bytes()
