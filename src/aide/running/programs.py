r"""Running many independent runs fast, in double precision, in chunks that change nothing.

Each operation of an algorithm is traced once into a program for one run; programs are `vmap`ped
over a chunk of runs and compiled once for all data, hyperparameters and seeds (arrays and floats
of an algorithm are traced; integers, strings and functions are compiled in). On CPU, chunks small
enough for the cache run on one thread per core, which beat XLA's own parallelism by 1.4.

Everything here runs inside `jax.enable_x64`: $\log p(x, y) - \log\hat p(y)$ cancels large numbers.
Floating-point arrays of an algorithm are promoted to float64 first. The same key gives other
draws in double than in single precision, so results are comparable with this wrapper only.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from aide._core.identity import program_identity_of
from aide._core.tracing import check_concrete
from aide._core.validate import check_memory, deferred_errors
from aide.running.footprint import footprint, largest_chunk
from aide.running.structure import Structure, split_algorithm

_LOOPS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
"""An option that XLA has no more from JAX 0.11 on."""
SPEED_OPTIONS = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""For algorithms that set `compile_for_speed`: Markov chains in loops run 2.5 times faster."""
CPU_OPTIONS = {**SPEED_OPTIONS, **_LOOPS}
"""Halve the time to compile a particle filter and lose no speed (measured on JAX 0.10)."""
QUICK_OPTIONS = {"xla_backend_optimization_level": 0, **_LOOPS}
"""For tiny programs, of which compiling is the cost."""

MOST_PROGRAMS = 256
_kept: dict[Any, "Program"] = {}
_session: ContextVar[dict[Any, "Program"]] = ContextVar("session", default=_kept)
_quick = ContextVar("quick", default=False)


class Program:
    """One operation of one algorithm: traced for one run, compiled for chunks of runs."""

    def __init__(
        self,
        one_run: Callable[..., Any],
        arrays: list[Any],
        example: tuple[Any, ...],
        device: Any,
        options: dict[str, Any],
    ):
        with deferred_errors():
            jaxpr, self.result = jax.make_jaxpr(one_run, return_shape=True)(arrays, example)
        check_concrete("aide", jaxpr.consts)
        check_memory("one run", footprint(jaxpr.jaxpr)[0])
        # Copies: JAX 0.10 shares its conversions of NumPy arrays between single and double
        # precision as long as one of them is alive, and this program lives long.
        jaxpr = ClosedJaxpr(jaxpr.jaxpr, [_copy(constant) for constant in jaxpr.consts])
        run_one = jaxpr_as_fun(jaxpr)
        result_tree = jax.tree.structure(self.result)

        def run_chunk(arrays: list[Any], key: Any, rows: tuple[Any, ...]) -> Any:
            def run(row: tuple[Any, ...]) -> Any:
                flat = jax.tree.leaves((arrays, (key, *row)))
                return jax.tree.unflatten(result_tree, run_one(*flat))

            return jax.vmap(run)(rows)

        self._jitted = jax.jit(run_chunk)
        self._shapes = (arrays, *example)
        self.device = device
        self._options = options
        self._largest = largest_chunk(jaxpr.jaxpr, device.platform == "cpu")
        self._compiled: dict[int, Any] = {}
        self._lock = Lock()

    def chunk_size(self, num: int) -> int:
        """Runs per chunk: what fits, but no more than each thread's share of `num`."""
        share = -(-num // num_threads(self.device))
        return min(self._largest, 2 ** (share - 1).bit_length())

    def compiled(self, size: int) -> Callable[..., Any]:
        """The program for chunks of `size` runs; compiled at most once, callable in threads."""
        with self._lock:
            if size not in self._compiled:
                arrays, key, *row = self._shapes
                rows = jax.tree.map(
                    lambda s: jax.ShapeDtypeStruct((size, *s.shape), s.dtype), tuple(row)
                )
                with self.context():
                    self._compiled[size] = self._compile(self._jitted.lower(arrays, key, rows))
            return self._compiled[size]

    @contextmanager
    def context(self) -> Iterator[None]:
        """Settings under which the program compiles and runs; threads do not inherit them."""
        with jax.enable_x64(True), jax.default_device(self.device):
            yield

    def _compile(self, lowered: Any) -> Any:
        if self.device.platform == "cpu":
            try:
                return lowered.compile(compiler_options=self._options)
            except jax.errors.JaxRuntimeError:  # an XLA that no longer knows one of the options
                pass
        return lowered.compile()


def default_device() -> Any:
    """The device on which JAX computes now: `jax.default_device`, or the first one."""
    device: Any = getattr(jax.config, "jax_default_device", None)
    return jax.devices(device)[0] if device is None or isinstance(device, str) else device


def num_threads(device: Any) -> int:
    """Chunks run at a time: one per core on CPU, one elsewhere."""
    if device.platform != "cpu" or not hasattr(os, "sched_getaffinity"):
        return 1
    return len(os.sched_getaffinity(0))


def get_program(operation: Callable[..., Any], algorithm: Any, example: tuple[Any, ...]) -> Any:
    """Trace `operation(algorithm, *arguments)` for one run, or fetch it from the cache.

    Returns the program and the algorithm's arrays, its first argument. Programs are kept for the
    life of the process under everything that is compiled into them: code, settings, and the data
    that functions close over or read from their modules (`aide._core.identity`). What cannot be
    looked into may change between two calls: such programs live as long as one `program_session`.
    """
    structure, arrays = split_algorithm(algorithm)
    leaves, tree = jax.tree.flatten((arrays, example))
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    identity = program_identity_of(algorithm)
    cache = _session.get() if identity.unseen else _kept
    around = (default_device(), _quick.get())
    name = (operation, structure.identity(), identity.digest, tree, shapes, *around)
    if name not in cache:
        if len(cache) >= MOST_PROGRAMS:
            cache.pop(next(iter(cache)))
        cache[name] = _trace(operation, structure, tree, shapes, _options(algorithm))
    return cache[name], arrays


@contextmanager
def program_session() -> Iterator[None]:
    """Keep the programs of opaque objects for the duration of one call."""
    token = _session.set({})
    try:
        yield
    finally:
        _session.reset(token)


@contextmanager
def compile_quickly() -> Iterator[None]:
    """Compile what is traced here for a short compilation rather than for speed."""
    token = _quick.set(True)
    try:
        yield
    finally:
        _quick.reset(token)


def _options(algorithm: Any) -> dict[str, Any]:
    if _quick.get():
        return QUICK_OPTIONS
    return SPEED_OPTIONS if getattr(algorithm, "compile_for_speed", False) else CPU_OPTIONS


def _trace(operation: Any, structure: Structure, tree: Any, shapes: Any, options: Any) -> Program:
    def one_run(arrays: list[Any], arguments: tuple[Any, ...]) -> Any:
        return operation(structure.join(arrays), *arguments)

    abstract = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    arrays, example = jax.tree.unflatten(tree, abstract)
    return Program(one_run, arrays, example, default_device(), options)


def run_chunks(
    program: Program,
    arrays: list[Any],
    key: Any,
    rows: tuple[Any, ...],
    size: int,
    report: Callable[[int], None],
    gathered: tuple[Any, np.ndarray] | None = None,
) -> Any:
    """Run a program on every row of `rows`, `size` at a time; the last chunk is padded.

    `gathered` is a last argument (tree, index): row i gets entry index[i] of the tree, taken
    chunk by chunk so that nothing is copied M times at once.
    """
    num = len(jax.tree.leaves(rows)[0])
    execute = program.compiled(size)

    def run(begin: int) -> Any:
        index = np.minimum(np.arange(begin, begin + size), num - 1)
        chunk = jax.tree.map(lambda a: a[index], rows)
        if gathered is not None:
            tree, position = gathered
            chunk = (*chunk, jax.tree.map(lambda a: a[position[index]], tree))
        with program.context(), _memory_errors(size):
            return jax.tree.map(np.asarray, execute(arrays, key, chunk))

    pieces = []
    for piece in _in_threads(run, range(0, num, size), num_threads(program.device)):
        pieces.append(piece)
        report(min(size, num - size * (len(pieces) - 1)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *pieces)


@contextmanager
def _memory_errors(size: int) -> Iterator[None]:
    """Say in words that a chunk does not fit; other errors of the device pass."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(
            f"{size} run(s) at a time do not fit into memory ({str(error).splitlines()[0]}). Use "
            "fewer particles or steps, or a smaller chunk_size."
        ) from error


def _in_threads(run: Callable[[int], Any], begins: range, threads: int) -> Iterator[Any]:
    """Results in order. Whatever is still waiting is dropped if the caller stops early."""
    if threads == 1 or len(begins) == 1:
        yield from map(run, begins)
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, begin) for begin in begins]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _copy(constant: Any) -> Any:
    return jnp.array(constant) if isinstance(constant, np.ndarray | np.generic) else constant
