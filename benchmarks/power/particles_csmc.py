"""The conditional SMC of the package `particles`: is it one? By versions, theirs and mended.

    python benchmarks/run.py power/particles_csmc    # about 4 minutes a row

Each row is `aide.check` of a filter with 3 particles and 3 observations whose `regenerate` is
that conditional SMC. Needs the package index for two small environments with NumPy 1.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import jax
import support

import aide
from aide.adapters.particles.filter import Conditional, particle_filter
from benchmarks.peers.filters import ensure_particles_env
from benchmarks.table import Row

ROOT = Path(__file__).resolve().parents[2]
MODEL = Path(support.__file__).with_name("particles_model.py")


ROWS: tuple[tuple[str, str, Conditional], ...] = tuple(
    (version, function, conditional)
    for version, function in (("0.4", "make"), ("0.3", "make"), ("0.4", "make_guided"))
    for conditional in get_args(Conditional)
)


def particles_csmc(num_runs: int = 12_000, seed: int = 0, workers: int = 1) -> Iterator[Row]:
    """One row per version of the package, filter and conditional SMC."""
    for version, function, conditional in ROWS:
        start = time.perf_counter()
        filtered = particle_filter(
            MODEL,
            python=ensure_particles_env(ROOT, version),
            function=function,
            num_particles=3,
            conditional=conditional,
            num_workers=workers,
        )
        report = aide.check(jax.random.key(seed), filtered, num_runs=num_runs, find=False)
        smallest = min(item.p_value or 0.0 for item in report.judged)
        yield {
            "particles": version,
            "filter": "guided" if function == "make_guided" else "bootstrap",
            "conditional SMC": conditional,
            "verdict": "passed" if report.passed else "failed",
            "p": f"{min(1.0, smallest * len(report.judged)):.2g}",
            "seconds": f"{time.perf_counter() - start:.0f}",
        }


TABLES = {"particles_csmc": particles_csmc}
