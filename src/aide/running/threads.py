"""Work in threads: XLA releases Python's lock while it compiles and while it runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aide.running.device import num_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], num_threads: int
) -> Iterator[Result]:
    """Results in order. Whatever is still waiting is dropped if the caller stops early."""
    if num_threads == 1 or len(items) <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(num_threads) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def compile_all(tasks: Iterable[Callable[[], None]]) -> None:
    """Do all tasks, as many at a time as there are cores; the first error is raised.

    A task begins as soon as it comes: one program is compiled while the next is traced.
    """
    with ThreadPoolExecutor(num_cores()) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
