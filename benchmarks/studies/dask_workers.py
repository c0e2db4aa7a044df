"""Dask with 2 workers beside the same study in this process: how much does it cost?

    python benchmarks/run.py studies/dask_workers --runs 30000     # seconds by runs
    taskset -c 0,1 python benchmarks/run.py studies/dask_workers --where here --runs 30000

Needs the extra `dask`. Workers and process have the same cores; workers start before the clock
does, and compile inside it, as a study does. With `--where` one of the two is measured, so that
both can be at the same time, on cores of their own. The digest is that of all numbers.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import jax
from support.pairs import arrays

import aide
from aide.problems.linear_gaussian import nile
from benchmarks.table import Row

NUM_WORKERS = 2


@contextmanager
def executor_at(where: str) -> Iterator[Any]:
    """None, or a client of two workers that have imported the library."""
    if where == "here":
        yield None
        return
    distributed: Any = import_module("distributed")
    settings = {"n_workers": NUM_WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda: __import__("aide"))
        yield client


def study(
    runs: int = 2000, num_particles: int = 200, meta: int = 5, where: str = "here workers"
) -> Iterator[Row]:
    """The bootstrap filter on the Nile data."""
    model = nile()
    target = aide.ParticleFilter(model.state_space(), num_particles)
    sizes = {"num_gold": runs, "num_target": runs, "num_meta_target": meta}
    here = None
    for each in where.split():
        with executor_at(each) as executor:
            begun = time.perf_counter()
            found = aide.draw(
                jax.random.key(0), model.posterior(), target, executor=executor, **sizes
            )
            seconds = time.perf_counter() - begun
        digest = hashlib.sha256(b"".join(part.tobytes() for part in arrays(found))).hexdigest()
        here = seconds if each == "here" else here
        yield {
            "where": each,
            "runs each way": str(runs),
            "seconds": seconds,
            "overhead": None if here is None else f"{seconds / here - 1:.0%}",
            "digest": digest[:16],
        }


TABLES = {"study": study}
