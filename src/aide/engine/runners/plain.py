"""Algorithms in plain Python: called run by run, each with its own generator.

The runs are made here, or shared by worker processes (`num_workers` of the algorithm): a run is a
function of (key, role, run, purpose, meta index) and the algorithm, in any process.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from aide._core.algorithm import log_z_of
from aide._core.random import CROSS_META, OWN_META, SIMULATE
from aide._core.types import Key, Role, Value
from aide.algorithms.existing_code import PythonAlgorithm
from aide.engine.programs.identity import Identity, digest_of_words, serial_number, stated_identity
from aide.engine.programs.map_runs import Report
from aide.engine.programs.places import Chunk
from aide.engine.programs.tracing import current_call
from aide.engine.runners.runner import Look, MetaRuns
from aide.engine.runners.workers import Workers

RUNS_AT_A_TIME = 32
"""Largest number of runs that a worker gets at a time: enough to outweigh the cost of sending."""


class PythonRunner:
    """Runs a `PythonAlgorithm`, one run at a time, with JAX in double precision."""

    def __init__(self, algorithm: PythonAlgorithm):
        self.algorithm = algorithm
        self.workers = Workers(algorithm, algorithm.num_workers)

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Make one run, which shows the structure of outputs."""
        with jax.enable_x64(True):
            rng = _generator(_words(key), role, first_run, SIMULATE, 0)
            value, _ = self.algorithm.simulate(rng)
        num = self.algorithm.num_workers
        at_once = 1 if num == 1 else num * RUNS_AT_A_TIME
        return Look(value, chunk.size(at_once, 1), 1)

    def identity(self, key: Key) -> Identity:
        """The `aide_identity` of the wrapped object, or an identity with unseen parts."""
        wrapped = self.algorithm.algorithm
        kind, facts = type(wrapped).__qualname__, {"log_z": repr(log_z_of(self.algorithm))}
        stated = stated_identity(wrapped)
        if stated is not None:
            return Identity.of(kind, facts | {"its aide_identity": digest_of_words(stated)})
        facts["the object"] = serial_number(wrapped)
        return Identity.of(kind, facts, (f"the Python code of {kind}",), current_call())

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Return no tasks: nothing is compiled."""
        return iter(())

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        words = _words(key)
        tasks = [(words, role, int(run)) for run in runs]
        draws = self.workers.map(simulate_run, tasks, report)
        try:
            values = jax.tree.map(lambda *leaves: np.stack(leaves), *(value for value, _ in draws))
        except ValueError as error:
            raise ValueError(
                f"{self.algorithm.label}: simulate must return values of the same structure and "
                f"shape in every run ({error})."
            ) from None
        return values, np.array([log_xi for _, log_xi in draws])

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        role, values, runs, metas, own = asked
        words, purpose = _words(key), OWN_META if own else CROSS_META
        tasks = [
            (jax.tree.map(lambda a, row=row: a[row], values), words, role, int(run), purpose, meta)
            for row, run in enumerate(runs)
            for meta in metas.tolist()
        ]
        log_xi = self.workers.map(regenerate_run, tasks, report)
        return np.array(log_xi, float).reshape(len(runs), len(metas))

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Do nothing: runs in plain Python have raised their errors already."""


def simulate_run(
    algorithm: PythonAlgorithm, words: list[int], role: Role, run: int
) -> tuple[Value, float]:
    """Make one run, with the generator of its indices."""
    with jax.enable_x64(True):
        return algorithm.simulate(_generator(words, role, run, SIMULATE, 0))


def regenerate_run(
    algorithm: PythonAlgorithm,
    value: Value,
    words: list[int],
    role: Role,
    run: int,
    purpose: int,
    meta: int,
) -> float:
    """Make one meta-inference run at an output, with the generator of its indices."""
    with jax.enable_x64(True):
        return algorithm.regenerate(_generator(words, role, run, purpose, meta), value)


def _words(key: Key) -> list[int]:
    return np.asarray(jax.random.key_data(key)).ravel().tolist()


def _generator(
    words: list[int], role: Role, run: int, purpose: int, meta: int
) -> np.random.Generator:
    seed = np.random.SeedSequence([*words, int(role), int(run), purpose, int(meta)])
    return np.random.Generator(np.random.Philox(seed))
