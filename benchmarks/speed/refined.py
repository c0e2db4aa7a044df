"""Seconds before a refined chain, AIS and SMC run for the first time: tracing and compilation.

    python benchmarks/run.py speed/refined

Each algorithm is measured in a process of its own, which first loads what was learned from a file.
Compilation is the first estimate less the second one with another key; processor seconds add up
those of all threads, and depend less on what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import aide
from aide.problems.distributions import Normal
from benchmarks.chains import Shifted
from benchmarks.table import Row

KINDS = ("chain", "AIS", "SMC, P = 3", "SMC, P = 3, tilted")
NUM_STEPS, DIMENSION = 20, 10


def build(kind: str) -> aide.algorithms.MarkovChain | aide.smc.Smc:
    """Ten dimensions, MALA of step 0.25, from N(1, 3^2) to N(1, 0.3^2), 20 steps."""
    start = Normal(np.ones(DIMENSION), 3.0)
    log_joint = Shifted(Normal(np.ones(DIMENSION), 0.3).log_prob)
    kernel = aide.kernels.Mala(0.25)
    if kind == "chain":
        return aide.mcmc(start, log_joint, kernel=kernel, num_steps=NUM_STEPS)
    return aide.tempered_smc(
        start,
        log_joint,
        kernel=kernel,
        num_particles=1 if kind == "AIS" else 3,
        num_temperatures=NUM_STEPS,
    )


def measure(kind: str, fit: str) -> Row:
    """In this process: wall and processor seconds of two estimates."""
    algorithm = aide.refine(None, build(kind), fit=aide.learned.load_reverse(fit))
    gold = aide.Tractable.of(Normal(np.ones(DIMENSION), 0.3))
    seconds = []
    for seed in range(2):
        begun, worked = time.perf_counter(), time.process_time()
        aide.estimate(jax.random.key(seed), gold, algorithm, num_gold=10, num_target=10)
        seconds.append((time.perf_counter() - begun, time.process_time() - worked))
    (first, first_worked), (second, second_worked) = seconds
    return {
        "first call, s": first,
        "second call, s": second,
        "compilation, s": first - second,
        "processor, s": first_worked - second_worked,
    }


def refined(turns: int = 3) -> Iterator[Row]:
    """The fastest of the turns."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            fit = str(Path(folder) / f"{len(kind)}.eqx")
            num_components = None if "tilted" in kind else 2
            aide.refine(
                jax.random.key(1), build(kind), num_pilots=1000, num_components=num_components
            ).fit.save(fit)
            found = [_in_a_process(kind, fit) for _ in range(turns)]
            yield {"algorithm": kind, **min(found, key=lambda row: row["compilation, s"])}


def _in_a_process(kind: str, fit: str) -> Row:
    root = str(Path(__file__).resolve().parents[2])
    code = (
        "import json, sys; from benchmarks.speed.refined import measure; "
        "print(json.dumps(measure(*sys.argv[1:])))"
    )
    paths = os.pathsep.join([root, str(Path(root) / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, kind, fit],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "AIDE_CACHE": "0"},
    )
    return json.loads(done.stdout.splitlines()[-1])


TABLES = {"refined": refined}
