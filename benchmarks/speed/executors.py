"""Executors beside the same work in this process: what do they cost, and are the numbers the same?

    python benchmarks/run.py speed/executors --runs 30000                   # a minute or more
    python benchmarks/run.py speed/executors --where "here dask" --runs 2000

Needs the extras `dask` and `slurm`. There are as many workers as cores, each with one core's share
of the work. Workers start, and import the library, before the clock does; they trace and compile
inside of the time, as they do for a user. Processor seconds are those of this process and all
workers together: on a machine with other work they say more than the wall time. The digest is that
of all numbers.
"""

import hashlib
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import jax
from support.pairs import arrays

import aide
from aide.problems.linear_gaussian import nile
from benchmarks.machine import num_cores
from benchmarks.table import Row


def ready() -> bool:
    """Import the library in a worker."""
    return bool(aide.__version__)


@contextmanager
def executor_at(where: str) -> Iterator[Any]:
    """Nothing for `here`, or an executor with workers that have imported the library."""
    num = num_cores()
    if where == "here":
        yield None
    elif where == "processes":
        with ProcessPoolExecutor(num, mp_context=get_context("spawn")) as pool:
            list(pool.map(time.sleep, [1.0] * num))
            pool.submit(ready).result()
            yield pool
    elif where == "dask":
        distributed: Any = import_module("distributed")
        settings = {"n_workers": num, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
            client.run(ready)
            yield client
    elif where == "submitit":
        submitit: Any = import_module("submitit")
        with tempfile.TemporaryDirectory() as folder:
            system = submitit.AutoExecutor(folder=folder, cluster="local")
            system.update_parameters(timeout_min=60)
            with aide.engine.Jobs(system, num, folder) as jobs:
                for future in [jobs.submit(time.sleep, 1.0) for _ in range(num)]:
                    future.result()
                yield jobs
    else:
        raise ValueError(f"where must be among here, processes, dask and submitit, got {where!r}.")


def processor_seconds() -> float:
    """Processor seconds of this process and of all its workers so far."""
    psutil: Any = import_module("psutil")
    this = psutil.Process()
    times = [one.cpu_times() for one in (this, *this.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def study(
    runs: int = 2000,
    num_particles: int = 200,
    meta: int = 5,
    where: str = "here processes dask submitit",
) -> Iterator[Row]:
    """The bootstrap filter on the Nile data, beside the exact posterior."""
    model = nile()
    target = aide.ParticleFilter(model.state_space(), num_particles)
    sizes = {"num_gold": runs, "num_target": runs, "num_meta_target": meta}
    here: tuple[float, float] | None = None
    for each in where.split():
        with executor_at(each) as executor:
            begun, spent = time.perf_counter(), processor_seconds()
            found = aide.draw(
                jax.random.key(0), model.posterior(), target, executor=executor, **sizes
            )
            wall, spent = time.perf_counter() - begun, processor_seconds() - spent
        digest = hashlib.sha256(b"".join(part.tobytes() for part in arrays(found))).hexdigest()
        here = (wall, spent) if each == "here" else here
        yield {
            "where": each,
            "runs each way": str(runs),
            "seconds": wall,
            "seconds beside here": None if here is None else f"{wall / here[0]:.2f}",
            "processor seconds": spent,
            "beside here": None if here is None else f"{spent / here[1]:.2f}",
            "digest": digest[:16],
        }


TABLES = {"study": study}
"""The work of the commands, after their arguments are parsed."""
