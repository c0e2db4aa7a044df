"""Every call that shares its work out: to the bit the same numbers, whoever does the work."""

import os
import re
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.shared_calls import CALLS, KERNEL, PRIOR, QUICK, SIZES, exact, same_bits, shifted

import aide
from aide.engine.programs import sharing
from aide.engine.programs.map_runs import map_runs


@pytest.fixture(autouse=True)
def everything_pays(monkeypatch):
    """Work is shared out however short it is."""
    monkeypatch.setattr(sharing, "FEWEST_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "COMPILED_SECONDS", 0.0)


class Counting(ThreadPoolExecutor):
    """Threads that count their tasks."""

    num_tasks = 0

    def submit(self, *task, **more):
        self.num_tasks += 1
        return super().submit(*task, **more)


@pytest.mark.parametrize("name", QUICK)
def test_threads_give_the_same_bits(name):
    with Counting(3) as pool:
        found = QUICK[name](pool)
        assert pool.num_tasks > 1
    assert same_bits(found, QUICK[name](None))


def test_processes_give_the_same_bits():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = QUICK["audit_simulated"](pool)
    assert same_bits(found, QUICK["audit_simulated"](None))


def _draw(scale, key, number, x):
    return x + scale * jax.random.normal(jax.random.fold_in(key, number))


def _with_wrong_keys(function, here, there, sent, arrays, key, *more):
    return function(here, there, sent, arrays, jax.random.fold_in(key, 1), *more)


@pytest.mark.parametrize("num", [1, 7, 300])
def test_any_number_of_rows_in_any_parts(num, monkeypatch):
    """Parts end between chunks: a control whose parts have keys of their own differs."""
    rows = np.arange(num, dtype=np.uint32), np.linspace(0.0, 1.0, num)
    call = lambda: map_runs(_draw, np.float64(2.0), jax.random.key(3), rows, what="a draw")
    monkeypatch.setattr("aide.engine.programs.places.num_cores", lambda: 2)
    here = call()
    with Counting(2) as pool, sharing.shared_out(pool):
        assert call().tobytes() == here.tobytes()
        assert pool.num_tasks > 1 or num == 1

    class Wrong(ThreadPoolExecutor):
        def submit(self, function, /, *task, **more):
            return super().submit(_with_wrong_keys, function, *task, **more)

    with Wrong(2) as pool, sharing.shared_out(pool):
        assert num == 1 or call().tobytes() != here.tobytes()


def test_little_work_stays_here(monkeypatch):
    monkeypatch.setattr(sharing, "FEWEST_SECONDS", 0.1)
    rows = (np.arange(100, dtype=np.uint32), np.zeros(100))
    with Counting(2) as pool, sharing.shared_out(pool):
        map_runs(_draw, np.float64(2.0), jax.random.key(3), rows, what="a draw")
        assert pool.num_tasks == 0


class InPlace:
    """Runs a task at once, in the thread that submits it."""

    def submit(self, function, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def test_an_executor_needs_submit_and_result_alone():
    """Work that runs in the thread that submits it is not shared out again."""
    found = QUICK["sweep_data"](InPlace())
    assert same_bits(found, QUICK["sweep_data"](None))


def test_what_cannot_be_sent_is_named():
    density = lambda x: PRIOR.log_prob(x)
    chain = aide.mcmc(PRIOR, density, kernel=KERNEL, num_steps=3)
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(TypeError, match=r"log_density cannot be sent.*top of a module"),
    ):
        aide.refine(0, chain, num_pilots=60, num_reverse=2, executor=pool)


def test_an_error_in_a_worker_is_that_of_the_call():
    def broken(shift):
        return aide.Tractable.of(Normal(shift, 1.0)) if shift else exact()

    class Normal:
        def __init__(self, *_):
            pass

        def sample(self, key):
            return jnp.zeros(())

        def log_density(self, x):
            return x / 0.0 * 0.0

    for pool in (None, ThreadPoolExecutor(1)):
        with pytest.raises(ValueError, match="nan"):
            aide.sweep(0, exact(), broken, {"shift": [0.0, 1.0]}, executor=pool, **SIZES)


def test_a_system_of_jobs_is_refused_with_the_fix():
    class AutoExecutor(InPlace):
        def update_parameters(self):
            """As submitit has."""

        map_array = update_parameters

    system: Any = AutoExecutor()
    with pytest.raises(TypeError, match=r"aide\.engine\.Jobs"):
        aide.sweep(0, exact(), shifted, {"shift": [0.1]}, executor=system)


@contextmanager
def _processes(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool, []


@contextmanager
def _dask(tmp_path):
    distributed = import_module("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        yield client, list(client.run(os.getpid).values())


@contextmanager
def _jobs(tmp_path):
    submitit = import_module("submitit")
    system = submitit.AutoExecutor(folder=tmp_path / "logs", cluster="local")
    system.update_parameters(timeout_min=30)
    with aide.engine.Jobs(system, 2, tmp_path / "shared") as pool:
        yield pool, [pool.submit(os.getpid).result()]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", [_processes, _dask, _jobs])
def test_every_call_gives_the_same_bits_with_a_worker_killed(where, tmp_path):
    here = {name: call(None) for name, call in CALLS.items()}
    with where(tmp_path) as (executor, pids):
        timer = threading.Timer(3.0, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids[:1]])
        timer.start()
        there = {name: call(executor) for name, call in CALLS.items()}
        assert not timer.is_alive()
    assert [name for name in CALLS if not same_bits(here[name], there[name])] == []


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_a_job_that_is_killed_during_a_task_is_replaced(tmp_path):
    with _jobs(tmp_path) as (pool, (pid, *_)):
        slow = [pool.submit(time.sleep, 1.0) for _ in range(4)]
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        assert [one.result(timeout=120) for one in slow] == [None] * 4
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(timeout=60)


PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "scale_out.md"


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_the_recipes_of_the_page_run(tmp_path, monkeypatch, capsys):
    """All but the submission to Slurm, whose job script is made and is the one that is shown."""
    import_module("submitit")
    dask_jobqueue = import_module("dask_jobqueue")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text, names = PAGE.read_text(), {"__name__": "example"}
    fences = re.findall(r"^```(python|py|text)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    [shown] = [block for kind, block in fences if kind == "text"]
    for kind, block in fences:
        if kind == "python" or "submitit" in block:
            exec(compile(block, PAGE.name, "exec"), names)
        elif kind == "py":
            made = block.split("cluster.scale")[0]
            exec(compile(made, PAGE.name, "exec"), names)
            cluster = names["cluster"]
            assert isinstance(cluster, dask_jobqueue.SLURMCluster)
            assert cluster.job_script().startswith(shown)
            cluster.close()
    lines = capsys.readouterr().out.splitlines()
    bounds = [line for line in lines if line.startswith("Divergence from the exact posterior")]
    assert len(bounds) == 2
    assert len(set(bounds)) == 1
