"""`kill -9` at ten random moments, and a rerun: the bits of an undisturbed study."""

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
import aide.draws.storage.checkpoint
from support.plain import plain

aide.draws.storage.checkpoint.SAVE_EVERY = 0.2  # seconds; 30 for users
gold, target = plain(), plain(0.1, 0.8, 0.6)
"""


def start(folder, out):
    words = ["measure", "study.py", "--until", "0.012", "--seed", "3", "--out", out]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-m", "aide", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "AIDE_CACHE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.full
def test_ten_kills_change_no_bit(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    rng, num_killed = random.Random(1), 0
    begun = time.monotonic()
    for _ in range(10):
        process = start(tmp_path, "killed")
        try:
            process.wait(rng.uniform(1.0, 8.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            num_killed += 1
    process = start(tmp_path, "killed")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, (output, time.monotonic() - begun)
    assert num_killed >= 5
    # The undisturbed study has the same plan: a pilot measures time, which differs between any two.
    [plan] = (tmp_path / "killed" / "runs").glob("*.plan.json")
    folder = tmp_path / "whole" / "runs"
    folder.mkdir(parents=True)
    (folder / plan.name).write_bytes(plan.read_bytes())
    process = start(tmp_path, "whole")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    one, two = (
        aide.draws.load(next((tmp_path / name / "runs").glob("*.nc")))
        for name in ("killed", "whole")
    )
    for first, second in zip(arrays(one), arrays(two), strict=True):
        assert first.tobytes() == second.tobytes()
    data = [(tmp_path / name / "result.csv").read_bytes() for name in ("killed", "whole")]
    assert data[0] == data[1]


@pytest.mark.full
def test_a_second_process_says_so_and_stops(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    first = start(tmp_path, "out")
    try:
        while not (tmp_path / "out" / "study.json").exists():
            time.sleep(0.05)
        second = start(tmp_path, "out")
        output, _ = second.communicate(timeout=120)
        assert second.returncode == 2
        assert b"another process (number" in output
    finally:
        first.kill()
        first.wait()


@pytest.mark.full
def test_ctrl_c_leaves_a_folder_that_goes_on(tmp_path):
    (tmp_path / "study.py").write_text(STUDY)
    process = start(tmp_path, "out")
    while not list((tmp_path / "out" / "runs").glob("*.nc")):
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert b"finished runs are kept in out. The same command continues." in output
