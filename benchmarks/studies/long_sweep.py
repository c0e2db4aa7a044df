"""1,000 settings in one sweep: programs compiled, time, and memory.

python benchmarks/run.py studies/long_sweep
"""

import resource
import time
from collections.abc import Iterator

import jax
import numpy as np

import aide
from aide.engine.programs import programs
from aide.problems.distributions import Normal
from benchmarks.table import Row


def sweep(settings: int = 1000, runs: int = 100) -> Iterator[Row]:
    """Annealed importance sampling on a normal pair, its step size swept."""
    start, posterior = Normal(0.0, 2.0), Normal(1.0, 1.0)
    gold = aide.Tractable.of(posterior)

    def build(step: float) -> aide.InferenceAlgorithm:
        # The density is the same object at every setting: a new function is a new program.
        return aide.ais(
            start, posterior.log_prob, kernel=aide.kernels.RandomWalk(step), num_temperatures=5
        )

    compiled = [0]
    original = programs.Program._compile

    def counting(self: programs.Program, size: int) -> object:
        compiled[0] += 1
        return original(self, size)

    programs.Program._compile = counting  # type: ignore[method-assign]
    try:
        for part in (settings // 10, settings - settings // 10):
            steps = np.geomspace(0.1, 5.0, part)
            begun, before = time.perf_counter(), compiled[0]
            aide.sweep(
                jax.random.key(0),
                gold,
                build,
                {"step": [float(s) for s in steps]},
                num_gold=runs,
                num_target=runs,
            )
            yield {
                "settings": part,
                "programs compiled": compiled[0] - before,
                "seconds": round(time.perf_counter() - begun, 1),
                "peak memory, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "memory now, MiB": _resident(),
            }
    finally:
        programs.Program._compile = original  # type: ignore[method-assign]


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20


TABLES = {"sweep": sweep}
