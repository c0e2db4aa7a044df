"""Sharing work out to an executor: the one place that hands tasks to workers.

An executor has the interface of `concurrent.futures`: `submit` returns an object with a `result`.
A task is a module-level function of what it is given, so that any worker computes the same bits,
and computes them again if another worker is lost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

from aide._core.jax_compat import setting
from aide.engine.programs.places import CHECK, CORES, QUICK, num_cores
from aide.engine.programs.programs import compile_quickly, folder_of_programs, keep_programs_too
from aide.engine.programs.sending import WORKERS_ENDED, explain_refusal, pickled_bound_methods

FEWEST_SECONDS = 0.1
"""Processor seconds of runs below which a call is not worth sending: a choice.

A round trip to a worker takes 0.005 to 0.02 seconds (measured with processes and with Dask)."""
COMPILED_SECONDS = 2.0
"""Processor seconds of all runs of a program from which on it is worth compiling in workers."""
MOST_PARTS = 64
"""Largest number of parts into which the runs of one call are divided: a choice."""


class Surroundings(NamedTuple):
    """Settings of the caller on which numbers depend in the last bit, or times.

    Attributes:
        is_double: Whether JAX is in double precision where the user's own functions run.
        quick: Whether programs are compiled quickly.
        num_cores: Number of cores that decides sizes of chunks.
        folder: The folder of compiled programs.
    """

    is_double: bool
    quick: bool
    num_cores: int
    folder: Path | None

    @staticmethod
    def here() -> "Surroundings":
        """The settings of this thread."""
        is_double = bool(setting("jax_enable_x64"))
        return Surroundings(is_double, QUICK.get(), num_cores(), folder_of_programs())

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have these settings in a worker, and share out nothing."""
        keep_programs_too(self.folder)
        cores, sharing = CORES.set(self.num_cores), _current.set(None)
        try:
            with jax.enable_x64(self.is_double), compile_quickly(self.quick):
                yield
        finally:
            CORES.reset(cores)
            _current.reset(sharing)


def _in_worker(surroundings: Surroundings, function: Callable[..., Any], *task: Any) -> Any:
    with surroundings.entered():
        return function(*task)


@runtime_checkable
class Client(Protocol):
    """A client of a cluster that has an executor, such as `distributed.Client` of Dask."""

    def get_executor(self) -> Executor:
        """The executor that runs on the cluster."""
        ...


@dataclass
class Sharing:
    """An executor, and what the programs of a call have cost so far.

    Attributes:
        executor: Runs the parts.
        seconds: Estimated processor seconds of the runs of every program.
    """

    executor: Executor
    seconds: dict[Any, float] = field(default_factory=dict)

    def pays(self, program: Any, seconds: float) -> bool:
        """Whether runs of a program that take so many seconds are worth sending to workers."""
        self.seconds[program] = self.seconds.get(program, 0.0) + seconds
        return seconds >= FEWEST_SECONDS and self.seconds[program] >= COMPILED_SECONDS


_current: ContextVar[Sharing | None] = ContextVar("sharing", default=None)


def current_sharing() -> Sharing | None:
    """The executor of this block; `None` outside of `shared_out`, and in workers."""
    return _current.get()


@contextmanager
def shared_out(executor: Executor | Client | None) -> Iterator[None]:
    """Share out the runs of this block, where that pays; with `None` nothing changes."""
    made = as_executor(executor)
    if executor is None or made is None:
        yield
        return
    token = _current.set(Sharing(made))
    try:
        yield
    finally:
        _current.reset(token)


def as_executor(executor: Executor | Client | None) -> Executor | None:
    """Return an executor, or that of a `distributed.Client`; by default that of `shared_out`.

    Raises:
        TypeError: The object is neither.
    """
    if executor is None:
        sharing = current_sharing()
        return None if sharing is None else sharing.executor
    made = executor.get_executor() if isinstance(executor, Client) else executor
    if hasattr(made, "update_parameters") and hasattr(made, "map_array"):
        raise TypeError(
            f"executor is {type(made).__name__} of submitit, which starts a job for every part of "
            "the work. Give it a fixed number of jobs: aide.engine.Jobs(executor, 4, folder)."
        )
    if not hasattr(made, "submit"):
        raise TypeError(
            "executor must be a concurrent.futures.Executor or a distributed.Client, got "
            f"{executor!r}."
        )
    return made


def parts_of(num: int, size: int) -> list[tuple[int, int]]:
    """Ranges of `num` runs, of whole chunks of `size` runs: at most `MOST_PARTS` ranges."""
    step = size * max(1, -(-num // (size * MOST_PARTS)))
    return [(begin, min(begin + step, num)) for begin in range(0, num, step)]


def share_out(
    executor: Executor | None,
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    take: Callable[[int, Any], None],
    *,
    parts: Mapping[str, Any],
    rescue: Callable[[list[Any]], None] = lambda futures: None,
) -> None:
    """Compute `function(*task)` for every task by the executor; `take` the results in order.

    Args:
        executor: Runs the tasks; with `None` they run here, each before the next task is made.
        function: A module-level function, which runs in workers.
        tasks: Arguments of the calls.
        take: Called with the number of a task and its result.
        parts: Objects in the tasks, by name, for the error if one of them cannot be sent.
        rescue: Called with the futures of submitted tasks after an error, when all tasks that had
            not begun are cancelled.
    """
    futures, check, here = [], CHECK.get(), Surroundings.here()
    if executor is None:
        for number, task in enumerate(tasks):
            take(number, function(*task))
        return
    with pickled_bound_methods():
        try:
            for task in tasks:
                futures.append(executor.submit(_in_worker, here, function, *task))
            for number, future in enumerate(futures):
                take(number, future.result())
                check()
        except BaseException as error:
            for future in futures:
                future.cancel()
            rescue(futures)
            _explain(parts, error)
            raise


def succeeded(future: Any) -> bool:
    """Whether a future has a result."""
    return future.done() and not future.cancelled() and future.exception() is None


def _explain(parts: Mapping[str, Any], error: BaseException) -> None:
    """Raise an error with a fix if the executor could not send a part or lost its workers."""
    if "pickle" in str(error):
        for name, part in parts.items():
            words = explain_refusal(name, part)
            if words is not None:
                raise TypeError(words) from error
    if isinstance(error, BrokenExecutor):
        error.add_note(WORKERS_ENDED)
