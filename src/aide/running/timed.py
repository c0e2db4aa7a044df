"""How long runs take: a runner that watches the clock while another one runs."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from aide._core.identity import Identity
from aide._core.roles import Role
from aide._core.types import Key, Value
from aide.running.chunks import Chunk
from aide.running.map_runs import Report
from aide.running.runner import Look, MetaRuns, Runner


class TimedRunner:
    """Runs as another runner does, and adds up seconds and runs of either operation.

    Attributes:
        simulate_seconds: Spent in `simulate`.
        regenerate_seconds: Spent in `regenerate`.
        num_simulated: Runs made.
        num_regenerated: Meta-runs made.
    """

    def __init__(self, runner: Runner):
        self._runner = runner
        self.simulate_seconds = self.regenerate_seconds = 0.0
        self.num_simulated = self.num_regenerated = 0

    @property
    def algorithm(self) -> Any:
        """What it runs."""
        return self._runner.algorithm

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Look at one output."""
        return self._runner.look(key, role, first_run, chunk)

    def identity(self, key: Key) -> Identity:
        """What the algorithm computes."""
        return self._runner.identity(key)

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """What the other runner compiles."""
        return self._runner.compile_tasks(key, output, simulate, regenerate)

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        begun = time.perf_counter()
        found = self._runner.simulate(key, role, runs, chunk, report)
        self.simulate_seconds += time.perf_counter() - begun
        self.num_simulated += len(runs)
        return found

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        begun = time.perf_counter()
        found = self._runner.regenerate(key, asked, chunk, report)
        self.regenerate_seconds += time.perf_counter() - begun
        self.num_regenerated += len(asked.runs) * len(asked.metas)
        return found

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Repeat one run outside of compiled code, for its errors."""
        self._runner.replay(key, role, run)
