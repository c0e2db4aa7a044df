"""Algorithms that run and are scored apart: two programs, one of which serves runs and meta-runs.

A run is the first program, then the second with the trace that the first one left; a meta-run is
the second with a blank trace, which it does not look at.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import ScoredApart
from aide._core.random import SIMULATE, run_key, stream_key
from aide._core.roles import Role
from aide._core.types import Key, LogProb, Value
from aide.running.chunks import Chunk
from aide.running.map_runs import PreparedRuns, Report, map_chunks
from aide.running.runner import Look
from aide.running.traced import NUMBER, TracedRunner, as_score

FLAG = jax.ShapeDtypeStruct((), jnp.bool_)


class ScoredApartRunner(TracedRunner):
    """Runs an algorithm that is `ScoredApart`, where JAX computes at the time of construction."""

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Trace one run."""
        runs = self._runs(key)
        size = runs.size(chunk)
        return Look(runs.output[0], size, self.place.num_threads, is_shared=True)

    def _programs(self, key: Key) -> dict[str, PreparedRuns]:
        runs = self._runs(key)
        return {"run_with_trace": runs, "score_trace": self._regenerate(key, runs.output[0])}

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Trace both programs; compiling them is left to the tasks."""
        first = self._runs(key)
        second, others = self._regenerate(key, first.output[0]), self._regenerate(key, output)
        size = _size(first, second, simulate)
        both = Chunk(size, size)
        yield lambda: second.compile(both)
        yield lambda: first.compile(both)
        if others is not second or others.size(regenerate) != size:
            yield lambda: others.compile(regenerate)

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        first = self._runs(key)
        second = self._regenerate(key, first.output[0])
        stream, numbers = stream_key(key, role, SIMULATE), runs.astype(np.uint32)

        def run(index: np.ndarray) -> Any:
            values, traces = first.run_chunk(stream, (numbers[index],))
            rows = (numbers[index], np.zeros_like(numbers[index]), np.ones(index.shape, bool))
            return values, second.run_chunk(stream, (*rows, traces, values))

        size = _size(first, second, chunk)
        return map_chunks(run, len(runs), size, self.place.here().num_threads, report)

    def _runs(self, key: Key) -> PreparedRuns:
        return self.prepare(_run, "simulate", key, (NUMBER,))

    def _regenerate(self, key: Key, output: Any) -> PreparedRuns:
        trace = self._runs(key).output[1]
        return self.prepare(_score, "score_trace", key, (NUMBER, NUMBER, FLAG, trace, output))

    def _no_trace(self, key: Key, num: int) -> tuple[Any, ...]:
        blank = lambda a: np.broadcast_to(np.zeros((), a.dtype), (num, *a.shape))
        return np.zeros(num, bool), jax.tree.map(blank, self._runs(key).output[1])


def _size(runs: PreparedRuns, scores: PreparedRuns, chunk: Chunk) -> int:
    """Runs per chunk that suit both programs."""
    return min(runs.size(chunk), scores.size(chunk))


def _run(algorithm: ScoredApart, stream: Key, run: Any) -> tuple[Value, Any]:
    return jax.tree.map(jnp.asarray, algorithm.run_with_trace(run_key(stream, run, 0)))


def _score(
    algorithm: Any, stream: Key, run: Any, meta: Any, is_own: Any, trace: Any, x: Value
) -> LogProb:
    log_xi = algorithm.score_trace(run_key(stream, run, meta), x, trace, is_own)
    return as_score(algorithm, "score_trace", log_xi)
