"""Running an operation many times: the only way by which aide runs programs.

`operation(subject, key, *row)` is one run: a function that JAX can trace, of an object whose arrays
are traced, of one key for all runs, and of a row that differs between runs, such as an index.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.types import Key
from aide._core.validate import deferred_errors, is_tracing_error
from aide.engine.programs.identity import ProgramDigest
from aide.engine.programs.places import CHECK, Chunk, Place, current_place
from aide.engine.programs.programs import Program, options_for
from aide.engine.programs.tracing import one_call, split_algorithm, tracing, without_collection

Report = Callable[[int], None]
SLOW_PROGRAM = 3.0
"""Processor seconds of runs after which a quickly compiled program is compiled for speed.

About twice the cost of that compilation, which makes runs two to three times as fast (measured)."""
_HEAVY = "heavy"
"""Noted in the pace where one call took `SLOW_PROGRAM`: then later programs will be slow too."""
_PACE: ContextVar[dict[str, float] | None] = ContextVar("pace", default=None)
"""Processor seconds of the runs of each program so far, by its digest, where programs are compiled
quickly at first; else `None`."""


class NotTraceable(TypeError):
    """Raised for code that JAX cannot trace; `reason` is JAX's message."""

    def __init__(self, words: str, reason: str):
        super().__init__(words)
        self.reason = reason


def ignore(done: int) -> None:
    """Do nothing: a report without a reader."""


def map_runs(
    operation: Callable[..., Any],
    subject: Any,
    key: Key,
    rows: tuple[Any, ...],
    *,
    what: str,
    advice: str = "Write it with jax.numpy and jax.lax.",
    report: Report = ignore,
    often: bool = False,
) -> Any:
    """`operation(subject, key, *row)` for every row of `rows`; results stacked, as NumPy arrays.

    In double precision, compiled once for all rows and for later calls with the same code and
    shapes, with a chunk size that suits the device, on all cores.

    Args:
        operation: One run; a module-level function or an object with equality, so that a second
            call finds its program.
        subject: The object that the operation works on.
        key: The key of all runs.
        rows: Arrays, or trees of them, with one entry per run.
        what: Names the code in the error if JAX cannot trace it.
        advice: Advice in that error.
        report: Called with the number of newly finished runs.
        often: Whether many such calls follow: then the program is compiled for speed at once, also
            within `quick_while_fast`.
    """
    place, pace = current_place(), _PACE.get()
    with place.entered():
        like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
    chunk = Chunk(len(jax.tree.leaves(rows)[0]))
    prepare = partial(PreparedRuns, operation, subject, key, like, what=what, advice=advice)
    if pace is None or _HEAVY in pace:
        return prepare(place=place).map(key, rows, chunk, report)
    runs = prepare(place=place if often else place._replace(quick=True))
    name = runs.digest.digest
    if not often and pace.get(name, 0.0) > SLOW_PROGRAM and not place.quick:
        runs = prepare(place=place)
    runs.compile(chunk)
    begun = time.process_time()
    found = runs.map(key, rows, chunk, report)
    seconds = time.process_time() - begun
    pace[name] = pace.get(name, 0.0) + seconds
    if seconds > SLOW_PROGRAM:
        pace[_HEAVY] = seconds
    return found


@contextmanager
def quick_while_fast() -> Iterator[None]:
    """Compile quickly the programs that `map_runs` traces here, until their runs get slow in sum.

    A program whose runs have taken `SLOW_PROGRAM` is compiled for speed at its next call; once a
    single call has taken as long, all programs are, from the first call on. Numbers are the same up
    to rounding.
    """
    token = _PACE.set({})
    try:
        yield
    finally:
        _PACE.reset(token)


def in_double(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function once, in double precision and outside of compiled code."""
    with current_place().entered():
        return function(*arguments)


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

    @property
    def output(self) -> Any:
        """Shapes and dtypes of the result of one run."""
        return self._program.output

    @property
    def digest(self) -> ProgramDigest:
        """The digest of one run's program."""
        return self._program.digest

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
        """

        def run(index: np.ndarray) -> Any:
            taken = jax.tree.map(lambda a: a[index], rows)
            if gathered is not None:
                tree, position = gathered
                taken = (*taken, jax.tree.map(lambda a: a[position[index]], tree))
            return self.run_chunk(key, taken)

        num, size = len(jax.tree.leaves(rows)[0]), self.size(chunk)
        self._program.compiled(size)
        return map_chunks(run, num, size, self._program.place.num_threads, report)

    def run_chunk(self, key: Key, rows: tuple[Any, ...]) -> Any:
        """Run all rows at once; results stay on the device."""
        size = len(jax.tree.leaves(rows)[0])
        execute = self._program.compiled(size)
        with self._program.place.entered(), _memory_errors(size):
            return jax.block_until_ready(execute(self._arrays, key, rows))


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


PATIENCE = 1.0
"""Seconds of work before the bar appears."""


def _in_notebook() -> bool:
    """Whether a notebook is running that can show bars: others would print a warning instead."""
    return "ipykernel" in sys.modules and find_spec("ipywidgets") is not None


class Progress:
    """Bars on standard error; none if `show` is false.

    With `show=None` the bars appear after a second if standard error is a terminal, or a notebook
    that can show bars (with `ipywidgets`) is running.
    """

    def __init__(self, names: Sequence[str], totals: Sequence[int], show: bool | None):
        self.names, self.totals = names, totals
        self.show = (sys.stderr.isatty() or _in_notebook()) if show is None else show
        self.patience = 0.0 if show else PATIENCE
        self.done = [0] * len(totals)
        self.begun = time.monotonic()
        self.bars: Any = None
        self.tasks: list[Any] = []

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def reporter(self, bar: int) -> Callable[[int], None]:
        """The function that one of the bars is told newly finished work by."""

        def report(num: int) -> None:
            self.done[bar] += num
            if self.show:
                self._draw(bar)

        return report

    def _draw(self, bar: int) -> None:
        if self.bars is None:
            if time.monotonic() - self.begun < self.patience:
                return
            from rich import progress
            from rich.console import Console
            from rich.markup import escape

            self.bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            for name, total in zip(self.names, self.totals, strict=True):
                self.tasks.append(self.bars.add_task(escape(name), total=total, start=False))
            self.bars.start()
        self.bars.start_task(self.tasks[bar])  # its clock starts with its own work
        self.bars.update(self.tasks[bar], completed=self.done[bar])
