"""Running an operation many times: the only way by which aide runs programs.

`operation(subject, key, *row)` is one run: a function that JAX can trace, of an object whose arrays
are traced, of one key for all runs, and of a row that differs between runs, such as an index.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax

from aide._core.types import Key
from aide.engine.programs.places import Chunk, compile_all, current_place
from aide.engine.programs.prepared import PreparedRuns, Report, ignore, in_double

__all__ = [
    "Asked",
    "Progress",
    "compile_together",
    "compiling_beside",
    "in_double",
    "map_runs",
    "quick_while_fast",
]

SLOW_PROGRAM = 3.0
"""Estimated processor seconds of runs after which a quickly compiled program is compiled for speed.

About twice the cost of that compilation, which makes runs two to three times as fast (measured)."""
_HEAVY = "heavy"
"""Noted in the pace where one call took `SLOW_PROGRAM`: then later programs will be slow too."""
_PACE: ContextVar[dict[str, float] | None] = ContextVar("pace", default=None)
"""Estimated processor seconds of the runs of each program so far, by its digest, where programs are
compiled quickly at first; else `None`. Estimates do not depend on the machine, nor do results."""


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
    runs, chunk = _prepare(key, Asked(operation, subject, rows, what, advice, often))
    pace, name = _PACE.get(), runs.digest.digest
    if pace is None or _HEAVY in pace:
        return runs.map(key, rows, chunk, report)
    found, seconds = runs.map(key, rows, chunk, report), chunk.rows * runs.seconds
    pace[name] = pace.get(name, 0.0) + seconds
    if seconds > SLOW_PROGRAM:
        pace[_HEAVY] = seconds
    return found


class Asked(NamedTuple):
    """What one call of `map_runs` asks for; see there."""

    operation: Callable[..., Any]
    subject: Any
    rows: tuple[Any, ...]
    what: str
    advice: str = "Write it with jax.numpy and jax.lax."
    often: bool = False


def compile_together(key: Key, *asked: Asked) -> None:
    """Compile the programs of calls of `map_runs` that will follow, as many at a time as cores.

    The subjects stand for those of the later calls: arrays of the same shapes, whatever is in them.
    """

    def tasks() -> Iterator[Callable[[], None]]:
        for one in asked:
            runs, chunk = _prepare(key, one)
            yield partial(runs.compile, chunk)

    compile_all(tasks())


@contextmanager
def compiling_beside(key: Key, asked: Asked) -> Iterator[None]:
    """Compile the program of a call of `map_runs` that will follow, beside the work of the block.

    Errors of the compilation are left to that call.
    """
    runs, chunk = _prepare(key, asked)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(runs.compile, chunk)
        yield


def _prepare(key: Key, asked: Asked) -> "tuple[PreparedRuns, Chunk]":
    """The program of a call, traced, and the number of its runs; compiled quickly while fast."""
    operation, subject, rows, what, advice, often = asked
    place, pace = current_place(), _PACE.get()
    with place.entered():
        like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), rows)
    chunk = Chunk(len(jax.tree.leaves(rows)[0]))
    prepare = partial(PreparedRuns, operation, subject, key, like, what=what, advice=advice)
    if pace is None or _HEAVY in pace:
        return prepare(place=place), chunk
    runs = prepare(place=place if often else place._replace(quick=True))
    if not often and pace.get(runs.digest.digest, 0.0) > SLOW_PROGRAM and not place.quick:
        runs = prepare(place=place)
    return runs, chunk


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
