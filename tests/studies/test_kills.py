"""`kill -9` at ten random moments, and a rerun: the bits of an undisturbed study."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.pairs import arrays

import aide

ROOT = Path(__file__).parents[2]
STUDY = """
import aide, aide.engine.files
from support.plain import SlowNoisy, plain

aide.engine.files.SAVE_EVERY = 0.1  # seconds; 30 for users
gold, target = plain(), aide.PythonAlgorithm(SlowNoisy(0.1, 0.8, 0.6))
"""
TUNED = """
target = lambda mean: aide.PythonAlgorithm(SlowNoisy(mean))
settings = {"mean": [1.0, 0.35, 0.3, 0.1]}
cost = lambda setting: -setting["mean"]
"""
MEASURE = ("measure", "study.py", "--until", "0.025", "--meta", "4")
TUNE = ("tune", "study.py", "--tolerance", "0.15")


@pytest.fixture(autouse=True)
def _interruptible():
    """A shell in the background makes its children ignore Ctrl-C; here it counts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(folder, words, out):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-m", "aide", *words, "--seed", "3", "--out", out],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "AIDE_CACHE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output


def written(folder):
    """What changes with every write; files that are being written come and go."""
    found = {}
    for file in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            found[file.name] = file.stat().st_mtime_ns
    return found


def kill_at_a_random_moment(process, runs, rng):
    """While it starts, or some writes later; False if it was finished before."""
    num_writes = rng.randrange(4)
    for _ in range(num_writes):
        before = written(runs)
        while written(runs) == before and process.poll() is None:
            time.sleep(0.005)
    time.sleep(rng.uniform(0.0, 0.3 if num_writes else 4.0))
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.full
@pytest.mark.parametrize(("words", "plan"), [(MEASURE, "*.plan.json"), (TUNE, "pilots.json")])
def test_ten_kills_change_no_bit(tmp_path, words, plan):
    (tmp_path / "study.py").write_text(STUDY + (TUNED if words is TUNE else ""))
    rng, runs = random.Random(1), tmp_path / "killed" / "runs"
    for number in range(10):
        process = start(tmp_path, words, "killed")
        assert kill_at_a_random_moment(process, runs, rng), f"finished after {number} kills"
    finish(start(tmp_path, words, "killed"))
    # The undisturbed study has the same plan: a pilot measures time, which differs between any two.
    [kept] = runs.glob(plan)
    whole = tmp_path / "whole" / "runs"
    whole.mkdir(parents=True)
    (whole / kept.name).write_bytes(kept.read_bytes())
    finish(start(tmp_path, words, "whole"))
    files = sorted(file.name for file in runs.glob("*.nc"))
    assert files == sorted(file.name for file in whole.glob("*.nc"))
    for name in files:
        one, two = aide.engine.load(runs / name), aide.engine.load(whole / name)
        for first, second in zip(arrays(one), arrays(two), strict=True):
            assert first.tobytes() == second.tobytes()
    data = [(tmp_path / name / "result.csv").read_bytes() for name in ("killed", "whole")]
    assert data[0] == data[1]


@pytest.mark.full
def test_a_second_process_says_so_and_stops(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    first = start(tmp_path, MEASURE, "out")
    try:
        while not (tmp_path / "out" / "study.json").exists():
            time.sleep(0.05)
        second = start(tmp_path, MEASURE, "out")
        output, _ = second.communicate(timeout=600)
        assert second.returncode == 2
        assert b"another process (number" in output
    finally:
        first.kill()
        first.communicate()


@pytest.mark.full
def test_ctrl_c_leaves_a_folder_that_goes_on(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    process = start(tmp_path, MEASURE, "out")
    while not list((tmp_path / "out" / "runs").glob("*.nc")):
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 130, output
    assert b"finished runs are kept in out. The same command continues." in output
    finish(start(tmp_path, MEASURE, "out"))
