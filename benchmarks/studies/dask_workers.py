"""Dask with 2 workers beside the same study in this process: how much does it cost?

    python benchmarks/run.py studies/dask_workers --runs 3000        # seconds by runs

Needs the extra `dask`. Workers and process have the same cores; they start before the clock does,
and compile inside it, as a study does.
"""

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jax

import aide
from aide.problems.linear_gaussian import nile
from benchmarks.table import Row


def study(runs: int = 2000, particles: int = 200, meta: int = 5) -> Iterator[Row]:
    """The bootstrap filter on the Nile data."""
    distributed: Any = import_module("distributed")
    model = nile()
    target = aide.ParticleFilter(model.state_space(), particles)
    sizes = {"num_gold": runs, "num_target": runs, "num_meta_target": meta}

    def draw(executor: Any) -> tuple[float, Any]:
        begun = time.perf_counter()
        found = aide.draw(jax.random.key(0), model.posterior(), target, executor=executor, **sizes)
        return time.perf_counter() - begun, found

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda: __import__("aide"))
        there, two = draw(client)
    here, one = draw(None)
    yield {
        "runs each way": runs,
        "seconds here": round(here, 1),
        "seconds with 2 workers": round(there, 1),
        "overhead": f"{there / here - 1:.0%}",
        "same bits": bool((one.gold.cross == two.gold.cross).all()),
    }


TABLES = {"study": study}
