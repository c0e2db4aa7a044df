"""Algorithms that JAX can trace: compiled, in chunks, on all cores or on an accelerator."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import InferenceAlgorithm, ScoredApart, describe, underlying
from aide._core.numerics import as_log
from aide._core.random import CROSS_META, OWN_META, SIMULATE, run_key, stream_key
from aide._core.types import Key, LogProb, Role, Value
from aide.engine.programs.identity import Identity, facts_of_data
from aide.engine.programs.places import Chunk, Place, current_place
from aide.engine.programs.prepared import PreparedRuns, Report, ignore, map_chunks
from aide.engine.programs.sending import Sent
from aide.engine.programs.sharing import current_sharing, parts_of, share_out
from aide.engine.programs.tracing import current_call
from aide.engine.runners.runner import Look, MetaRuns

NUMBER = jax.ShapeDtypeStruct((), jnp.uint32)
"""Shape of the index of a run, or of a meta-inference run."""
ADVICE = (
    "Write the method with jax.numpy and jax.lax, or, if it is plain Python or NumPy code, wrap "
    "it: aide.PythonAlgorithm(algorithm)."
)


class TracedRunner:
    """Runs a traceable algorithm on the device at its construction, or on that of its thread.

    A runner holds the programs of its algorithm, which are traced once. Unpickled elsewhere, it
    runs there in the same chunks, so that the numbers are the same bits.
    """

    def __init__(self, algorithm: InferenceAlgorithm, place: Place | None = None):
        self.algorithm = algorithm
        self._subject = underlying(algorithm)
        self.place = current_place() if place is None else place
        self._prepared: dict[Any, PreparedRuns] = {}
        self._lock = RLock()

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.algorithm, self.place.quick, self.place.num_threads)

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Trace one run."""
        simulate = self._prepare("simulate", key, NUMBER)
        return Look(simulate.output[0], simulate.size(chunk), self.place.num_threads)

    def identity(self, key: Key) -> Identity:
        """Digests of the traced programs, and of every array that they get."""
        facts, unseen = facts_of_data(self._subject), list[str]()
        for name, program in self._programs(key).items():
            facts |= program.digest.facts(name)
            unseen += [f"a Python callback in {name}"] * len(program.digest.opaque)
        call = current_call()
        return Identity.of(type(self._subject).__qualname__, facts, tuple(unseen), call)

    def _programs(self, key: Key) -> dict[str, PreparedRuns]:
        """The programs that define the algorithm's identity, by the names of its methods."""
        simulate = self._prepare("simulate", key, NUMBER)
        return {"simulate": simulate, "regenerate": self._regenerate(key, simulate.output[0])}

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Trace one method after the other; the tasks compile them."""
        first = self._prepare("simulate", key, NUMBER)
        yield lambda: first.compile(simulate)
        second = self._regenerate(key, output)
        yield lambda: second.compile(regenerate)

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        stream, rows = stream_key(key, role, SIMULATE), (runs.astype(np.uint32),)
        return self._prepare("simulate", key, NUMBER).map(stream, rows, chunk, report)

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        role, values, runs, metas, own = asked
        like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), values)
        row = np.repeat(np.arange(len(runs)), len(metas))
        rows = (runs.astype(np.uint32)[row], np.tile(metas.astype(np.uint32), len(runs)))
        rows = (*rows, *self._no_trace(key, len(row)))
        stream = stream_key(key, role, OWN_META if own else CROSS_META)
        log_xi = self._regenerate(key, like).map(stream, rows, chunk, report, (values, row))
        return log_xi.reshape(len(runs), len(metas))

    def meta_seconds(self, key: Key, output: Any) -> float:
        """Estimated processor seconds of a meta-inference run, from the traced program."""
        return self._regenerate(key, output).seconds

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Repeat one run outside of compiled code, for its errors."""
        with self.place.here().entered():
            self.algorithm.simulate(run_key(stream_key(key, role, SIMULATE), run, 0))

    def _regenerate(self, key: Key, output: Any) -> PreparedRuns:
        return self._prepare("regenerate", key, NUMBER, NUMBER, output)

    def _no_trace(self, key: Key, num: int) -> tuple[Any, ...]:
        """Further parts of the rows of `num` meta-inference runs."""
        return ()

    def _prepare(self, method: str, key: Key, *row: Any) -> PreparedRuns:
        """The program of one method, traced once for rows of this kind."""
        leaves, tree = jax.tree.flatten(row)
        place = self.place.here()
        types = tuple((leaf.shape, jnp.dtype(leaf.dtype)) for leaf in leaves)
        name = (method, tree, types, place)
        with self._lock:
            if name not in self._prepared:
                self._prepared[name] = PreparedRuns(
                    OPERATIONS[method],
                    self._subject,
                    key,
                    row,
                    place=place,
                    what=f"{describe(self.algorithm)}: {method}",
                    advice=ADVICE,
                    raised_by=f"{method} of {describe(self.algorithm)}",
                )
            return self._prepared[name]


def _rebuild(
    kind: type[TracedRunner], algorithm: InferenceAlgorithm, quick: bool, num_threads: int
) -> TracedRunner:
    return kind(algorithm, Place(current_place().device, quick, num_threads))


def _simulate(algorithm: InferenceAlgorithm, stream: Key, run: Any) -> tuple[Value, LogProb]:
    draw = algorithm.simulate(run_key(stream, run, 0))
    if not isinstance(draw, tuple) or len(draw) != 2:
        raise TypeError(
            f"{describe(algorithm)}: simulate must return aide.Draw(value, log_xi), got "
            f"{type(draw).__name__}."
        )
    value, log_xi = draw
    return jax.tree.map(jnp.asarray, value), as_score(algorithm, "simulate", log_xi)


def _regenerate(
    algorithm: InferenceAlgorithm, stream: Key, run: Any, meta: Any, x: Value
) -> LogProb:
    log_xi = algorithm.regenerate(run_key(stream, run, meta), x)
    return as_score(algorithm, "regenerate", log_xi)


def as_score(algorithm: InferenceAlgorithm, method: str, log_xi: Any) -> LogProb:
    """Return one number per run; raise an error that names the method if it is not."""
    if log_xi is None or isinstance(log_xi, str):
        raise TypeError(
            f"{describe(algorithm)}: {method} must give a number log_xi, got {log_xi!r}."
        )
    if jnp.shape(log_xi) != ():
        raise ValueError(
            f"{describe(algorithm)}: {method} must give one number log_xi per run, got shape "
            f"{jnp.shape(log_xi)}. A log density of a vector must be summed over its components."
        )
    return as_log(log_xi)


FLAG = jax.ShapeDtypeStruct((), jnp.bool_)
"""Shape of the flag that says whether a score is that of a run's own trace."""


class ScoredApartRunner(TracedRunner):
    """Runs an algorithm that is `ScoredApart`, by one program for runs and one for scores."""

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Trace one run."""
        runs = self._runs(key)
        return Look(runs.output[0], runs.size(chunk), self.place.num_threads, is_shared=True)

    def _programs(self, key: Key) -> dict[str, PreparedRuns]:
        runs = self._runs(key)
        return {"run_with_trace": runs, "score_trace": self._regenerate(key, runs.output[0])}

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Trace both programs; the tasks compile them."""
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
        sharing, seconds = current_sharing(), len(runs) * (first.seconds + second.seconds)
        if sharing and len(runs) > size and sharing.pays(first.digest.digest, seconds):
            return _simulate_elsewhere(self, sharing.executor, key, role, runs, chunk, size, report)
        return map_chunks(run, len(runs), size, self.place.here().num_threads, report)

    def _runs(self, key: Key) -> PreparedRuns:
        return self._prepare("run_with_trace", key, NUMBER)

    def _regenerate(self, key: Key, output: Any) -> PreparedRuns:
        trace = self._runs(key).output[1]
        return self._prepare("score_trace", key, NUMBER, NUMBER, FLAG, trace, output)

    def _no_trace(self, key: Key, num: int) -> tuple[Any, ...]:
        blank = lambda a: np.broadcast_to(np.zeros((), a.dtype), (num, *a.shape))
        return np.zeros(num, bool), jax.tree.map(blank, self._runs(key).output[1])


def _simulate_elsewhere(
    runner: ScoredApartRunner,
    executor: Executor,
    key: Key,
    role: Role,
    runs: np.ndarray,
    chunk: Chunk,
    size: int,
    report: Report,
) -> tuple[Value, np.ndarray]:
    """Make runs by an executor, in parts of whole chunks, so that no trace is sent."""
    parts, pieces, sent = parts_of(len(runs), size), list[Any](), Sent(runner)

    def take(number: int, piece: Any) -> None:
        pieces.append(piece)
        report(parts[number][1] - parts[number][0])

    tasks = [(sent, key, role, runs[begin:end], chunk) for begin, end in parts]
    named = {describe(runner.algorithm): runner.algorithm}
    share_out(executor, _simulate_there, tasks, take, parts=named)
    return jax.tree.map(lambda *found: np.concatenate(found), *pieces)


def _simulate_there(sent: Sent, key: Key, role: Role, runs: np.ndarray, chunk: Chunk) -> Any:
    """Make some runs in a worker; chunks have the size that they have for all runs."""
    return sent.thing.simulate(key, role, runs, chunk, ignore)


def _size(runs: PreparedRuns, scores: PreparedRuns, chunk: Chunk) -> int:
    """Runs per chunk, the smaller size of both programs."""
    return min(runs.size(chunk), scores.size(chunk))


def _run(algorithm: ScoredApart, stream: Key, run: Any) -> tuple[Value, Any]:
    return jax.tree.map(jnp.asarray, algorithm.run_with_trace(run_key(stream, run, 0)))


def _score(
    algorithm: Any, stream: Key, run: Any, meta: Any, is_own: Any, trace: Any, x: Value
) -> LogProb:
    log_xi = algorithm.score_trace(run_key(stream, run, meta), x, trace, is_own)
    return as_score(algorithm, "score_trace", log_xi)


OPERATIONS = {
    "simulate": _simulate,
    "regenerate": _regenerate,
    "run_with_trace": _run,
    "score_trace": _score,
}
"""One run of each method, as an operation for `map_runs`."""
