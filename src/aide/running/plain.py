"""Algorithms in plain Python: called run by run, each with a generator of its own."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from aide._core.random import CROSS_META, OWN_META, SIMULATE
from aide._core.roles import Role
from aide._core.types import Key, Value
from aide.algorithms.python import PythonAlgorithm
from aide.running.chunks import Chunk
from aide.running.map_runs import Report
from aide.running.runner import FirstRun, Look


class PythonRunner:
    """Runs a `PythonAlgorithm`, one run at a time; what it computes with JAX is in double too."""

    def __init__(self, algorithm: PythonAlgorithm):
        self.algorithm = algorithm

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Run once: there is no other way to see what the code returns."""
        with jax.enable_x64(True):
            value, log_xi = self.algorithm.simulate(_generator(key, role, first_run, SIMULATE, 0))
        return Look(value, chunk.size(1, 1), 1, FirstRun(value, log_xi))

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> list[Callable[[], None]]:
        """Nothing is compiled."""
        return []

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        draws = []
        with jax.enable_x64(True):
            for run in runs:
                draws.append(self.algorithm.simulate(_generator(key, role, run, SIMULATE, 0)))
                report(1)
        try:
            values = jax.tree.map(lambda *leaves: np.stack(leaves), *(value for value, _ in draws))
        except ValueError as error:
            raise ValueError(
                f"{self.algorithm.label}: simulate must return values of the same structure and "
                f"shape in every run ({error})."
            ) from None
        return values, np.array([log_xi for _, log_xi in draws])

    def regenerate(
        self,
        key: Key,
        role: Role,
        values: Value,
        runs: np.ndarray,
        metas: np.ndarray,
        chunk: Chunk,
        report: Report,
        *,
        own: bool,
    ) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        purpose = OWN_META if own else CROSS_META
        log_xi = np.empty((len(runs), len(metas)))
        with jax.enable_x64(True):
            for row, run in enumerate(runs):
                value = jax.tree.map(lambda a, row=row: a[row], values)
                for column, meta in enumerate(metas):
                    rng = _generator(key, role, run, purpose, meta)
                    log_xi[row, column] = self.algorithm.regenerate(rng, value)
                    report(1)
        return log_xi

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Its runs are never compiled, and have raised their errors already."""


def _generator(key: Key, role: Role, run: int, purpose: int, meta: int) -> np.random.Generator:
    words = np.asarray(jax.random.key_data(key)).ravel()
    seed = np.random.SeedSequence([*words.tolist(), int(role), int(run), purpose, int(meta)])
    return np.random.Generator(np.random.Philox(seed))
