"""The places where programs run: a device, and a number of chunks at a time."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, NamedTuple

import jax

from aide._core.jax_compat import default_device, inner_jaxprs

QUICK = ContextVar("quick", default=False)
"""Whether programs that are traced now are compiled quickly; see `compile_quickly`."""
CHECK: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)
"""The function of `checking_often`; threads that start here do not inherit it."""
CORES: ContextVar[int | None] = ContextVar("cores", default=None)
"""Number of cores that decides sizes of chunks, in a worker that of the machine of the caller."""
OWN_DEVICE: ContextVar[Any] = ContextVar("own_device", default=None)
"""The device of a thread of `Devices`; `None` in other threads."""


class Place(NamedTuple):
    """The device of programs, and the way in which they are compiled and run.

    Attributes:
        device: A JAX device.
        quick: Whether a short compilation matters more than speed.
        num_threads: Number of chunks at a time: one per core on a CPU, one on other devices.
    """

    device: Any
    quick: bool
    num_threads: int

    @property
    def is_cpu(self) -> bool:
        """Whether the device is a CPU, whose cores run one chunk each."""
        return self.device.platform == "cpu"

    def here(self) -> "Place":
        """The same on the device of this thread, if the thread has its own."""
        own = OWN_DEVICE.get()
        return self if own is None else self._replace(device=own)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Use double precision on this device; each thread enters the place itself."""
        with jax.enable_x64(True), jax.default_device(self.device):
            yield


def current_place() -> Place:
    """The place that JAX uses now: `jax.default_device`, or the first device."""
    device = default_device()
    return Place(device, QUICK.get(), num_cores() if device.platform == "cpu" else 1)


def num_cores() -> int:
    """Number of cores that this process may use, according to the system or to its caller."""
    stated = CORES.get()
    if stated is not None:
        return stated
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Devices(ThreadPoolExecutor):
    """JAX devices as an executor: `aide.estimate(..., executor=aide.engine.Devices())`.

    Every device compiles the programs for itself and takes the next block when it has finished one.
    Runs are divided into as many blocks as there are devices, or more.

    Args:
        devices: JAX devices, all of one kind, so that they compute the same numbers; by default all
            local ones of the default backend (`jax.local_devices()`).

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> estimate = aide.estimate(0, exact, fit, executor=aide.engine.Devices())
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


@contextmanager
def checking_often(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before a program is traced or compiled here and after every chunk of runs.

    An error that `check` raises ends the work, which makes time limits hold.
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
    """Run all tasks, as many at a time as there are cores; raise the first error.

    A task starts as soon as it is yielded: one program is compiled while the next is traced.
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
        kept: Bytes of everything in memory at once, genealogies included.
        runs: Number of runs.
    """

    hot: int
    kept: int
    runs: int


CPU = ChunkLimits(128 * 2**10, 256 * 2**20, 2**11)
"""Limits on a CPU: the first from the size of its cache, the second a choice.

From 4,096 runs on, JAX 0.11.2 compiled one density of posteriordb (Lotka and Volterra's hares and
lynxes) without its 42 normalising constants: log densities were 42 log(2π) / 2 = 38.6 too large.
With 2,048 runs they were right."""
ACCELERATOR = ChunkLimits(64 * 2**20, 8 * 2**30, 2**20)
"""Limits on a GPU or TPU: a choice that uses a part of its memory."""


class Footprint(NamedTuple):
    """Bytes that one run needs: in the largest array inside its loops, and in all.

    Without loops, `hot` is the size of the largest array.
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
        """Largest number of runs in a chunk that fits, a power of two."""
        budget = CPU if place.is_cpu else ACCELERATOR
        most = min(budget.hot // self.hot, budget.kept // self.kept, budget.runs)
        return 2 ** max(0, most.bit_length() - 1)


WHILE_STEPS = 16
"""Steps that a loop without a stated number of steps is taken to make: a choice."""
SECONDS_PER_OPERATION = 3e-10
"""Processor seconds per operation of `operations_of`.

On one machine programs took 0.5e-10 to 1.5e-10 seconds, those compiled quickly 1.3e-10 to 7e-10."""


def operations_of(jaxpr: Any) -> float:
    """Approximate number of scalar operations of one run of a traced program."""
    total = 0.0
    for equation in jaxpr.eqns:
        inside = [operations_of(inner) for inner in inner_jaxprs(equation.params)]
        sizes = [math.prod(getattr(one.aval, "shape", ())) for one in equation.outvars]
        name = equation.primitive.name
        if name == "cond":
            total += max(inside)
        elif inside:
            steps = WHILE_STEPS if name == "while" else equation.params.get("length", 1)
            total += steps * sum(inside)
        elif name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * sum(sizes) * math.prod(shape[axis] for axis in contracted)
        else:
            total += sum(sizes)
    return total


class Chunk(NamedTuple):
    """A wanted chunk size: `fixed` runs at a time, or a size for calls with up to `rows` runs."""

    rows: int
    fixed: int | None = None

    def size(self, most: int, num_threads: int) -> int:
        """Runs per chunk, at most `most`: about each thread's share of all runs.

        Sizes without a fixed one are 2, 8, 32, 128, …, so that similar numbers of runs share a
        program: compiling one takes longer than running it. With one thread, as on an accelerator,
        successive chunks cost more: sizes are then powers of two.
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
