"""An operation on a subject, traced once and run for several sets of rows, a chunk at a time."""

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import Key
from aide._core.validate import deferred_errors, is_tracing_error
from aide.engine.programs.identity import ProgramDigest
from aide.engine.programs.places import CHECK, Chunk, Place, current_place
from aide.engine.programs.programs import (
    Program,
    options_for,
)
from aide.engine.programs.sending import Sent
from aide.engine.programs.sharing import current_sharing, parts_of, share_out
from aide.engine.programs.tracing import (
    AlgorithmStructure,
    one_call,
    split_algorithm,
    tracing,
    without_collection,
)

Report = Callable[[int], None]


class NotTraceable(TypeError):
    """Raised for code that JAX cannot trace; `reason` is JAX's message."""

    def __init__(self, words: str, reason: str):
        super().__init__(words)
        self.reason = reason


def ignore(done: int) -> None:
    """Do nothing: a report without a reader."""


class PreparedRuns:
    """An operation on a subject, traced once, to be run for several sets of rows.

    Within a call, objects share a program if they have the same structure, settings and functions;
    functions are compared by their place in memory, never by their code.

    Args:
        operation: See `map_runs`.
        subject: See `map_runs`.
        key: A key of the kind of the runs' key.
        row: Shapes and dtypes of one row.
        place: The place of the runs; by default the device that JAX uses now.
        what: See `map_runs`.
        advice: See `map_runs`.
        raised_by: Names the code in a note to its own errors.
    """

    def __init__(
        self,
        operation: Callable[..., Any],
        subject: Any,
        key: Key,
        row: tuple[Any, ...],
        *,
        place: Place | None = None,
        what: str,
        advice: str = "Write it with jax.numpy and jax.lax.",
        raised_by: str = "",
    ):
        place = current_place() if place is None else place
        with place.entered(), _refusals(what, advice, raised_by), one_call() as call, call.lock:
            structure, self._arrays = split_algorithm(subject)
            leaves, tree = jax.tree.flatten((self._arrays, (key, *row)))
            types = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
            options = options_for(subject, place)
            name = (operation, structure.name(), tree, types, place, tuple(sorted(options.items())))

            def one_run(arrays: list[Any], arguments: tuple[Any, ...]) -> Any:
                return operation(structure.join(arrays), *arguments)

            program = call.known(name)
            if program is None:
                CHECK.get()()
                shapes = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*one) for one in types])
                with deferred_errors(), without_collection(), tracing(call):
                    jaxpr, output = jax.make_jaxpr(one_run, return_shape=True)(*shapes)
                program = Program(jaxpr, output, shapes, place, options, call)
                program = call.keep(name, program, program.digest.digest, subject)
            self._program: Program = program
            self._sent = SentRuns(operation, structure, place, what, advice, raised_by)

    @property
    def output(self) -> Any:
        """Shapes and dtypes of the result of one run."""
        return self._program.output

    @property
    def digest(self) -> ProgramDigest:
        """The digest of one run's program."""
        return self._program.digest

    @property
    def seconds(self) -> float:
        """Estimated processor seconds of one run."""
        return self._program.seconds

    def with_arrays(self, arrays: list[Any]) -> "PreparedRuns":
        """The same program for a subject with other arrays."""
        other = copy.copy(self)
        other._arrays = arrays
        return other

    def size(self, chunk: Chunk) -> int:
        """Runs per chunk."""
        return self._program.size(chunk)

    def compile(self, chunk: Chunk) -> None:
        """Compile the program of `map` now; several programs may be compiled in threads."""
        self._program.compiled(self.size(chunk))

    def map(
        self,
        key: Key,
        rows: tuple[Any, ...],
        chunk: Chunk,
        report: Report = ignore,
        gathered: tuple[Any, np.ndarray] | None = None,
    ) -> Any:
        """Run every row of `rows`, a chunk at a time; the last chunk is padded.

        `gathered` is a last argument (tree, index): row i gets entry index[i] of the tree, taken
        chunk by chunk, so that memory holds no M copies of the tree.

        In a block of `shared_out` workers run whole chunks, if that pays: to the bit the same.
        """
        num, size = len(jax.tree.leaves(rows)[0]), self.size(chunk)
        sharing = current_sharing()
        if sharing and num > size and sharing.pays(self.digest.digest, num * self.seconds):
            return self._map_elsewhere(sharing.executor, key, rows, size, report, gathered)

        def run(index: np.ndarray) -> Any:
            taken = jax.tree.map(lambda a: a[index], rows)
            if gathered is not None:
                tree, position = gathered
                taken = (*taken, jax.tree.map(lambda a: a[position[index]], tree))
            return self.run_chunk(key, taken)

        self._program.compiled(size)
        return map_chunks(run, num, size, self._program.place.num_threads, report)

    def _map_elsewhere(
        self,
        executor: Executor,
        key: Key,
        rows: tuple[Any, ...],
        size: int,
        report: Report,
        gathered: tuple[Any, np.ndarray] | None,
    ) -> Any:
        """Run all rows by an executor: in parts of whole chunks, as `map` would make them here."""
        if self._program.sent is None:
            self._program.sent = Sent(self._sent)
        sent, parts = self._program.sent, parts_of(len(jax.tree.leaves(rows)[0]), size)
        arrays = [_portable(array) for array in self._arrays]
        pieces = list[Any]()

        def rows_of(begin: int, end: int) -> tuple[Any, ...]:
            taken = jax.tree.map(lambda a: a[begin:end], rows)
            if gathered is None:
                return taken
            tree, position = gathered
            return (*taken, jax.tree.map(lambda a: np.asarray(a)[position[begin:end]], tree))

        def take(number: int, piece: Any) -> None:
            pieces.append(piece)
            report(parts[number][1] - parts[number][0])

        tasks = [(sent, arrays, key, rows_of(*part), size) for part in parts]
        what = {type(self._sent.blank).__name__: self._sent.blank}
        share_out(executor, _map_there, tasks, take, parts=what)
        return jax.tree.map(lambda *found: np.concatenate(found), *pieces)

    def run_chunk(self, key: Key, rows: tuple[Any, ...]) -> Any:
        """Run all rows at once; results stay on the device."""
        size = len(jax.tree.leaves(rows)[0])
        execute = self._program.compiled(size)
        with self._program.place.entered(), _memory_errors(size):
            return jax.block_until_ready(execute(self._arrays, key, rows))


class SentRuns:
    """A program for workers: a worker traces it once, for a subject whose arrays come later."""

    def __init__(
        self,
        operation: Callable[..., Any],
        structure: AlgorithmStructure,
        place: Place,
        *words: str,
    ):
        self._operation, self._structure, self._words = operation, structure, words
        self._quick, self._num_threads = place.quick, place.num_threads
        self._found: dict[Place, PreparedRuns] = {}
        self._lock = RLock()

    @property
    def blank(self) -> Any:
        """The subject without its arrays."""
        return self._structure.join([0.0] * sum(self._structure.traced))

    def __reduce__(self) -> Any:
        parts = self._operation, self.blank, self._quick, self._num_threads, self._words
        return _unpacked, parts

    def prepared(self, arrays: list[Any], key: Key, rows: tuple[Any, ...]) -> PreparedRuns:
        """The program on the device of this thread, with these arrays."""
        place = Place(current_place().device, self._quick, self._num_threads).here()
        with self._lock, place.entered():
            arrays = [jnp.asarray(array) for array in arrays]
            if place not in self._found:
                row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
                what, advice, raised_by = self._words
                self._found[place] = PreparedRuns(
                    self._operation,
                    self._structure.join(arrays),
                    key,
                    row,
                    place=place,
                    what=what,
                    advice=advice,
                    raised_by=raised_by,
                )
            return self._found[place].with_arrays(arrays)


def _unpacked(
    operation: Callable[..., Any], blank: Any, quick: bool, num_threads: int, words: tuple[str, ...]
) -> SentRuns:
    structure, _ = in_double(split_algorithm, blank)
    return SentRuns(operation, structure, Place(None, quick, num_threads), *words)


def _portable(array: Any) -> Any:
    """An array that any process can read; keys are sent as JAX sends them."""
    is_key = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return array if is_key else np.asarray(array)


def _map_there(sent: Sent, arrays: list[Any], key: Key, rows: tuple[Any, ...], size: int) -> Any:
    """Run some rows in another thread, process or machine, in chunks of `size` runs."""
    return sent.thing.prepared(arrays, key, rows).map(key, rows, Chunk(size, size))


def in_double(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function once, in double precision and outside of compiled code."""
    with current_place().entered():
        return function(*arguments)


def map_chunks(
    run: Callable[[np.ndarray], Any], num: int, size: int, num_threads: int, report: Report
) -> Any:
    """`run(index)` for chunks of the rows 0 to `num`, in threads; results stacked, in NumPy.

    The last chunk is padded with its last row.
    """
    begins, pieces, check = range(0, num, size), [], CHECK.get()
    indices = (np.minimum(np.arange(begin, begin + size), num - 1) for begin in begins)
    check()
    with ExitStack() as stack:
        found = map(run, indices)
        if num_threads > 1 and len(begins) > 1:
            pool = ThreadPoolExecutor(num_threads)
            stack.callback(pool.shutdown, cancel_futures=True)
            found = pool.map(run, indices)
        for piece in found:
            check()
            pieces.append(jax.tree.map(np.asarray, piece))
            report(min(size, num - size * (len(pieces) - 1)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *pieces)


@contextmanager
def _refusals(what: str, advice: str, raised_by: str) -> Iterator[None]:
    """Raise `NotTraceable` for code that cannot be traced; pass on its own errors with a note."""
    try:
        yield
    except Exception as error:
        if not is_tracing_error(error):
            if raised_by:
                error.add_note(f"(raised by {raised_by})")
            raise
        reason = str(error).splitlines()[0]
        words = f"{what} is not traceable by JAX. It said: {reason} {advice}"
        raise NotTraceable(words, reason) from error


@contextmanager
def _memory_errors(size: int) -> Iterator[None]:
    """Raise `MemoryError` if a chunk does not fit; pass on other errors of the device."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(
            f"{size} run(s) at a time do not fit into memory ({str(error).splitlines()[0]}). Use "
            "fewer particles or steps, or a smaller chunk_size."
        ) from error
