"""The particle filter inside AIDE on whatever device JAX finds, and the same numbers on the CPU.

    python benchmarks/device.py

Prints particle-steps per second of `aide.draw` (compilation excluded) for each number of particles,
and the largest relative difference between the device's log ξ and the CPU's for the same key.
"""

import json
import time

import jax
import numpy as np
from run import simulate_data

import aide
from aide.problems import LocalLevelModel

RUNS = {100: 20_000, 1_000: 4_000, 10_000: 400}


def filter_draws(num: int, runs: int, seed: int) -> aide.draws.Draws:
    """Both algorithms on the benchmark's data."""
    model = LocalLevelModel(simulate_data(), 0.5, 1.0, 0.0, 1.0, 0.9)
    target = aide.ParticleFilter(model.state_space(), num)
    key = jax.random.key(seed)
    return aide.draw(key, model.posterior(), target, num_gold=runs, num_target=runs)


def main() -> None:
    """Measure and compare."""
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
        print(
            json.dumps(
                {
                    "device": str(jax.devices()[0]),
                    "particles": num,
                    "particle_steps_per_second": rate,
                    "largest_relative_difference_from_cpu": gap,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
