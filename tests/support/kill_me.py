"""A draw in a process of its own that can be killed from outside, or kills itself while it writes.

`python kill_me.py PATH KILL_AT`: with a positive KILL_AT the process ends by SIGKILL at the
KILL_AT-th operation on a file whose name contains that of PATH; with 0 it prints their number.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import aide
from aide.engine import files

KEY = jax.random.key(11)
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "shutil.rmtree")
SIZES: dict[str, Any] = {"num_gold": 120, "num_target": 90, "num_meta_target": 2}


class SlowNormal:
    """A normal in NumPy; every run takes a moment in the process that may be killed."""

    pause = 0.0

    def __init__(self, mean):
        self.mean = mean
        self.aide_identity = f"a slow normal, mean {mean}"

    def simulate(self, rng):
        time.sleep(SlowNormal.pause)
        x = rng.normal(self.mean)
        return x, self.regenerate(rng, x)

    def regenerate(self, rng, value):
        return -0.5 * float(np.sum((value - self.mean) ** 2)) + 0.0 * rng.normal()


def draw(path=None, **options):
    """The draw that everybody makes."""
    pair = [aide.PythonAlgorithm(SlowNormal(mean), label=f"mean {mean}") for mean in (0.0, 0.7)]
    settings: dict[str, Any] = {**SIZES, "keep_values": True, **options}
    return aide.draw(KEY, *pair, checkpoint=path, **settings)


def main():
    """Draw, and die on the way."""
    path, kill_at = Path(sys.argv[1]), int(sys.argv[2])
    seen = [0]

    def hook(event, arguments):
        if event in EVENTS and any(path.name in str(part) for part in arguments[:2]):
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    files.SAVE_EVERY = 0.0
    SlowNormal.pause = 0.001
    print("drawing", flush=True)
    if kill_at >= 0:
        sys.addaudithook(hook)
    draw(path)
    print(seen[0], flush=True)


if __name__ == "__main__":
    main()
