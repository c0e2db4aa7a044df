"""What does a table of errors cost on top of the estimate?

    OPENBLAS_NUM_THREADS=1 python benchmarks/run.py speed/errors

Processor seconds of `aide.estimate` and of `estimate.errors()`, the first time in a process and
again with other keys (the least of five), and the programs that JAX compiled for the table. With
several threads, linear algebra waits actively, and processor seconds count the waiting. `parts`:
where the time of a table goes, in milliseconds (the least of five).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import aide
from aide.estimation.errors.directions import find_blame
from aide.estimation.errors.errors import find_errors
from aide.estimation.errors.lines import find_lines
from aide.estimation.errors.overlap import overlap_of
from aide.estimation.errors.simultaneous import single_level
from aide.estimation.errors.total_variation import total_variation_of
from aide.estimation.errors.variables import variables_of
from benchmarks.table import Row

COMPILED = "/jax/core/compile/backend_compile_duration"


def cost(runs: int = 500) -> Iterator[Row]:
    """One row per pair."""
    for name, (gold, target) in _pairs().items():
        row: Row = {"pair": name}
        for when, keys in (("first", [0]), ("again", [1, 2, 3, 4, 5])):
            found = [_seconds(key, gold, target, runs) for key in keys]
            estimate, errors, programs, row["variables"] = map(min, zip(*found, strict=True))
            row[f"estimate, {when} (s)"] = f"{estimate:.3f}"
            row[f"errors, {when} (s)"] = f"{errors:.3f}"
            row[f"share, {when}"] = f"{errors / estimate:.0%}"
            row[f"programs, {when}"] = int(programs)
        row["estimate, per run (µs)"] = f"{1e6 * estimate / (2 * runs):.0f}"
        yield row


def _seconds(key: int, gold: Any, target: Any, runs: int) -> tuple[float, float, int, int]:
    """Of one estimate and of its table; programs compiled for the table, and its variables."""
    begin = time.process_time()
    sizes = {"num_gold": runs, "num_target": runs}
    found = aide.estimate(jax.random.key(key), gold, target, **sizes)
    between = time.process_time()
    with _counting() as programs:
        errors = found.errors()
    seconds = time.process_time() - between
    return between - begin, seconds, len(programs), len(errors.table.variables)


def parts(runs: int = 500) -> Iterator[Row]:
    """One row per pair; outputs of its estimate, limits of one level for all, and the rest."""
    for name, (gold, target) in _pairs().items():
        sizes = {"num_gold": runs, "num_target": runs}
        draws = aide.estimate(jax.random.key(0), gold, target, **sizes).draws
        variables, overlap = variables_of(draws), overlap_of(draws)
        if overlap is None:
            continue
        lines = find_lines(overlap, variables)
        steps: dict[str, Callable[[], Any]] = {
            "whole table": lambda draws=draws: find_errors(draws),
            "estimates": lambda o=overlap, v=variables: find_lines(o, v),
            "one level for all limits": lambda o=overlap, f=lines.found: single_level(o, f, 0.95),
            "directions": lambda o=overlap, v=variables: find_blame(o, v, 0.95),
            "total variation": lambda draws=draws: total_variation_of(draws, 0.95),
        }
        row: Row = {"pair": name, "limits": len(lines.variables)}
        yield row | {step: f"{1e3 * _least(call):.1f}" for step, call in steps.items()}


def _least(call: Callable[[], Any]) -> float:
    """Processor seconds, the least of five."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


@contextmanager
def _counting() -> Iterator[list[float]]:
    """Durations of all compilations inside."""
    found: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            found.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def _pairs() -> dict[str, tuple[Any, Any]]:
    from aide.problems import LinearRegression, nile

    model, path = LinearRegression(x=[-2.0, 0.5, 2.0], y=[-1.5, 1.0, 2.5]), nile()
    kernel = aide.kernels.RandomWalk(0.5)
    settings = {"kernel": kernel, "num_temperatures": 20, "num_particles": 100}
    rng = np.random.default_rng(0)
    return {
        "SIR, 10 particles, 2-D": (
            model.posterior(),
            aide.sir(model.prior(), model.log_joint, num_particles=10),
        ),
        "tempered SMC against SIR, 2-D": (
            aide.tempered_smc(model.prior(), model.log_joint, **settings),
            aide.sir(model.prior(), model.log_joint, num_particles=100),
        ),
        "particle filter, 100 particles, 100-D": (
            path.posterior(),
            aide.ParticleFilter(path.state_space(), 100),
        ),
        "20-D normals": (
            aide.Tractable.of(aide.problems.Normal(np.zeros(20), 1.0)),
            aide.Tractable.of(aide.problems.Normal(0.1 * rng.normal(size=20), 1.1)),
        ),
    }


TABLES = {"cost": cost, "parts": parts}
