"""The particle filter inside AIDE on whatever device JAX finds, and the same numbers on the CPU.

    python benchmarks/run.py speed/device        # only where JAX finds an accelerator

Million particle-steps per second of `aide.draw`, compilation excluded, by number of particles, and
the largest relative difference between the device's log ξ and the CPU's for the same key.
"""

import time
from collections.abc import Iterator

import jax
import numpy as np

import aide
from aide.problems import LocalLevelModel
from benchmarks.speed.filter import simulate_data
from benchmarks.table import Row

RUNS = {100: 20_000, 1_000: 4_000, 10_000: 400}


def filter_draws(num: int, runs: int, seed: int) -> aide.engine.Draws:
    """Both algorithms on the benchmark's data."""
    model = LocalLevelModel(simulate_data(), 0.5, 1.0, 0.0, 1.0, 0.9)
    target = aide.ParticleFilter(model.state_space(), num)
    key = jax.random.key(seed)
    return aide.draw(key, model.posterior(), target, num_gold=runs, num_target=runs)


def compare_devices() -> Iterator[Row]:
    """Measure and compare; without an accelerator there is nothing to compare."""
    if jax.default_backend() == "cpu":
        print("skipped: JAX finds no accelerator.")
        return
    for num, runs in RUNS.items():
        filter_draws(num, runs, 0)
        begun = time.perf_counter()
        filter_draws(num, runs, 1)
        rate = 3 * runs * num * 100 / (time.perf_counter() - begun)
        few = filter_draws(num, 16, 2)
        with jax.default_device(jax.devices("cpu")[0]):
            same = filter_draws(num, 16, 2)
        pairs = ((few.gold.cross, same.gold.cross), (few.target.own, same.target.own))
        gap = max(float(np.max(np.abs(a - b) / np.abs(b))) for a, b in pairs)
        yield {
            "P": num,
            "M/s": f"{rate / 1e6:.1f}",
            "largest relative difference from the CPU": f"{gap:.1e}",
        }


TABLES = {"device": compare_devices}
