"""Where programs run: the device, and how many chunks run on it at a time."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import jax

from aide._core.jax_compat import default_device, inner_jaxprs

QUICK = ContextVar("quick", default=False)
"""Whether programs that are traced now should compile quickly; see `compile_quickly`."""
CHECK: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)
"""See `checking_often`; threads that are begun here do not inherit it."""
OWN_DEVICE: ContextVar[Any] = ContextVar("own_device", default=None)
"""The device of a thread that has one to itself (`Devices`); `None` elsewhere."""


class Place(NamedTuple):
    """Where and how programs are compiled and run.

    Attributes:
        device: A JAX device.
        quick: Whether a short compilation matters more than speed.
        num_threads: Chunks run at a time: one per core on CPU, one elsewhere.
    """

    device: Any
    quick: bool
    num_threads: int

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU, whose cores run one chunk each."""
        return self.device.platform == "cpu"

    def here(self) -> "Place":
        """The same on the device of this thread, if it has one to itself."""
        own = OWN_DEVICE.get()
        return self if own is None else self._replace(device=own)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Double precision on this device; threads do not inherit it and enter it themselves."""
        with jax.enable_x64(True), jax.default_device(self.device):
            yield


def current_place() -> Place:
    """Where JAX computes now: on `jax.default_device`, or on the first device."""
    device = default_device()
    return Place(device, QUICK.get(), num_cores() if device.platform == "cpu" else 1)


def num_cores() -> int:
    """Cores that this process may use, as far as the system says."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Devices(ThreadPoolExecutor):
    """JAX devices as an executor: `aide.estimate(..., executor=aide.engine.Devices())`.

    Every device compiles the programs for itself and takes the next block when it has finished one.
    Runs are divided into as many blocks as there are devices, or more.

    Args:
        devices: JAX devices, all of one kind, so that they compute the same numbers; by default all
            local ones of the default backend (`jax.local_devices()`).
    """

    def __init__(self, devices: Sequence[Any] | None = None):
        self.devices = tuple(jax.local_devices() if devices is None else devices)
        if not self.devices or len(set(self.devices)) < len(self.devices):
            raise ValueError(f"devices must be different ones, at least one, got {devices!r}.")
        kinds = sorted({str(device.device_kind) for device in self.devices})
        if len(kinds) > 1:
            raise ValueError(
                f"devices must be of one kind, got {' and '.join(kinds)}: numbers of different "
                "kinds are not the same bits. Choose some: Devices(jax.devices('gpu'))."
            )
        free: SimpleQueue[Any] = SimpleQueue()
        for device in self.devices:
            free.put(device)
        super().__init__(
            len(self.devices),
            thread_name_prefix="aide-device",
            initializer=lambda: OWN_DEVICE.set(free.get()),
        )


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


@contextmanager
def checking_often(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before a program is traced or compiled here and after every chunk of runs.

    An error that it raises ends what runs here: a time limit that holds is made that way.
    """
    before = CHECK.get()

    def both() -> None:
        before()
        check()

    token = CHECK.set(both)
    try:
        yield
    finally:
        CHECK.reset(token)


def compile_all(tasks: Iterable[Callable[[], None]]) -> None:
    """Do all tasks, as many at a time as there are cores; the first error is raised.

    A task begins as soon as it comes: one program is compiled while the next is traced.
    """
    check = CHECK.get()
    with ThreadPoolExecutor(num_cores()) as pool:
        futures = []
        for task in tasks:
            check()
            futures.append(pool.submit(task))
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()


class ChunkLimits(NamedTuple):
    """Limits of a chunk.

    Attributes:
        hot: Bytes of the largest array inside a loop. On CPU the working set must fit the cache.
        kept: Bytes of everything kept at once, genealogies included.
        runs: Number of runs.
    """

    hot: int
    kept: int
    runs: int


CPU = ChunkLimits(128 * 2**10, 256 * 2**20, 2**12)
ACCELERATOR = ChunkLimits(64 * 2**20, 8 * 2**30, 2**20)


class Footprint(NamedTuple):
    """Bytes that one run needs: of the largest array inside its loops, and of all it keeps.

    Without loops, `hot` is the largest array at all.
    """

    hot: int
    kept: int

    @staticmethod
    def of(jaxpr: Any) -> "Footprint":
        """The footprint of a traced program."""
        loops, largest, kept = [], 8, 8
        for equation in jaxpr.eqns:
            sizes = [_bytes(variable.aval) for variable in equation.outvars]
            size = sum(sizes)
            for inner in inner_jaxprs(equation.params):
                inside = Footprint.of(inner)
                loops.append(inside.hot)
                size += inside.kept
            largest = max(largest, *sizes, 8)
            kept += size
        return Footprint(max(loops) if loops else largest, kept)

    def most_runs(self, place: Place) -> int:
        """Runs that fit into a chunk, a power of two."""
        budget = CPU if place.is_cpu else ACCELERATOR
        most = min(budget.hot // self.hot, budget.kept // self.kept, budget.runs)
        return 2 ** max(0, most.bit_length() - 1)


class Chunk(NamedTuple):
    """A wish: `fixed` runs at a time, or what suits calls with up to `rows` runs."""

    rows: int
    fixed: int | None = None

    def size(self, most: int, num_threads: int) -> int:
        """Runs per chunk, where `most` fit: about each thread's share of all runs.

        Sizes that nobody fixed are 2, 8, 32, 128, …, so that similar numbers of runs share a
        program: compiling one takes longer than running it. With one thread, as on an accelerator,
        chunks in a row cost more: there they are powers of two.
        """
        if self.fixed is not None:
            return min(self.fixed, self.rows)
        share = -(-self.rows // num_threads)
        doublings = (share - 1).bit_length()
        if num_threads > 1 and doublings % 2 == 0:
            doublings = max(0, doublings - 1)
        return min(most, 2**doublings)


def _bytes(aval: Any) -> int:
    shape = getattr(aval, "shape", ())
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 8)
    return math.prod(shape) * itemsize
