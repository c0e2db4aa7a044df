"""Dask: the same bits as here, whoever computes, and whoever dies on the way."""

import os
import random
import signal
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest
from support.pairs import KEY, arrays
from support.plain import SlowNoisy, plain
from typer.testing import CliRunner

import aide
from aide.cli import app

distributed = import_module("distributed")
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]
SIZES = {"num_gold": 1500, "num_target": 1500, "num_meta_target": 4}
PAIR = plain(), aide.PythonAlgorithm(SlowNoisy(0.1, 0.8, 0.6))


@pytest.fixture(scope="module")
def undisturbed():
    return aide.draw(KEY, *PAIR, **SIZES)


def test_one_of_two_workers_killed_at_five_random_moments(undisturbed, tmp_path):
    rng, num_killed = random.Random(0), 0
    for number in range(5):
        file = tmp_path / f"{number}.nc"
        settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with (
            distributed.LocalCluster(**settings) as cluster,
            distributed.Client(cluster) as client,
        ):
            pids = list(client.run(os.getpid).values())
            after = rng.uniform(0.2, 2.0)
            timer = threading.Timer(after, os.kill, (rng.choice(pids), signal.SIGKILL))
            timer.start()
            found = aide.draw(KEY, *PAIR, executor=client, checkpoint=file, **SIZES)
            num_killed += not timer.is_alive()
            timer.cancel()
        for draws in (found, aide.engine.load(file)):
            for one, two in zip(arrays(undisturbed), arrays(draws), strict=True):
                assert one.tobytes() == two.tobytes()
    assert num_killed == 5


def test_the_command_on_a_local_cluster_or_devices_gives_the_same_result(tmp_path):
    file = tmp_path / "a_study.py"
    file.write_text(
        "import aide\n"
        "class Mine:\n"
        "    log_z = 0.0\n"
        "    def simulate(self, rng):\n"
        "        x = rng.normal(0.1)\n"
        "        return x, self.regenerate(rng, x)\n"
        "    def regenerate(self, rng, x):\n"
        "        return -0.5 * (x - 0.1) ** 2\n"
        "gold, target = aide.PythonAlgorithm(Mine()), aide.PythonAlgorithm(Mine())\n"
    )
    found = []
    for name, more in (("here", ()), ("there", ("--workers", "2")), ("all", ("--devices",))):
        words = ["measure", str(file), "--num-runs", "50", "--out", str(tmp_path / name), *more]
        begun = time.monotonic()
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, (result.output, time.monotonic() - begun)
        [runs] = Path(tmp_path / name / "runs").glob("*.nc")
        found.append(aide.engine.load(runs))
    for here, *others in zip(*map(arrays, found), strict=True):
        assert all(other.tobytes() == here.tobytes() for other in others)
