"""Algorithms in plain Python: called run by run, each with its own generator.

The runs are made here, or shared by worker processes (`num_workers` of the algorithm): a run is a
function of (key, role, run, purpose, meta index) and the algorithm, in any process.
"""

import functools
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from uuid import uuid4

import jax
import numpy as np

from aide._core.algorithm import log_z_of
from aide._core.random import CROSS_META, OWN_META, SIMULATE
from aide._core.types import Key, Role, Value
from aide.algorithms.existing_code import PythonAlgorithm
from aide.engine.programs.identity import Identity, digest_of_words, serial_number, stated_identity
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import Report
from aide.engine.programs.sending import WORKERS_ENDED, explain_refusal
from aide.engine.programs.tracing import current_call, one_call
from aide.engine.runners.runner import Look, MetaRuns

PARTS_PER_WORKER = 4
"""Number of parts of the calls per worker, so that one slow part does not delay the others."""
MOST_RECEIVED = 4
"""Largest number of objects that a worker stores between calls."""
_received: OrderedDict[str, Any] = OrderedDict()


class Workers:
    """Calls functions of one object in this process (one worker), or in processes with copies.

    Args:
        thing: The first argument of every call.
        num_workers: Number of processes. They start on first use as new interpreters (a fork of a
            process that has run JAX would hang), and end with the call (`tracing.one_call`).
    """

    def __init__(self, thing: Any, num_workers: int):
        self.thing = thing
        self.num_workers = int(num_workers)
        self._token = uuid4().hex

    def map(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], report: Report
    ) -> list[Any]:
        """`function(thing, *task)` for every task; `report(num)` counts finished ones."""
        results = []
        for part in self._parts(function, tasks):
            results += part
            report(len(part))
        return results

    def _parts(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[list[Any]]:
        if self.num_workers == 1 or len(tasks) == 1:
            yield from ([function(self.thing, *task)] for task in tasks)
            return
        size = max(1, -(-len(tasks) // (PARTS_PER_WORKER * self.num_workers)))
        parts = [tasks[begin : begin + size] for begin in range(0, len(tasks), size)]
        with one_call() as call:
            pool = call.kept_open(("pool", self.num_workers), lambda: _pool(self.num_workers))
            futures = [
                pool.submit(_call_there, self._token, self._pickled, function, part)
                for part in parts
            ]
            try:
                for future in futures:
                    yield future.result()
            except BrokenExecutor as error:
                error.add_note(WORKERS_ENDED)
                raise
            finally:
                for future in futures:
                    future.cancel()

    @functools.cached_property
    def _pickled(self) -> bytes:
        words = explain_refusal("algorithm", self.thing)
        if words is not None:
            raise TypeError(words)
        return pickle.dumps(self.thing)

    def __reduce__(self) -> Any:
        return Workers, (self.thing, self.num_workers)


def _pool(num_workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(num_workers, mp_context=get_context("spawn"))


def _call_there(
    token: str, pickled: bytes, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
) -> list[Any]:
    """Make the calls of one part in a worker, which unpickles each object once."""
    if token not in _received:
        while len(_received) >= MOST_RECEIVED:
            _received.popitem(last=False)
        _received[token] = pickle.loads(pickled)
    return [function(_received[token], *task) for task in tasks]


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

    def meta_seconds(self, key: Key, output: Any) -> float:
        """Return 0: Python code shows nothing before it runs."""
        return 0.0

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
