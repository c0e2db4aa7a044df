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
from functools import lru_cache
from threading import Lock
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from aide._validate import deferred_errors
from aide.estimation.footprint import largest_chunk

CPU_OPTIONS = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_prefer_vector_width": 512,
}
"""Halve the time to compile an SMC program and lose no speed (measured on JAX 0.10)."""


class Program:
    """One operation of one algorithm: traced for one run, compiled for chunks of runs."""

    def __init__(
        self, one_run: Callable[..., Any], arrays: list[Any], example: tuple[Any, ...], device: Any
    ):
        with deferred_errors():
            jaxpr, self.result = jax.make_jaxpr(one_run, return_shape=True)(arrays, example)
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
                return lowered.compile(compiler_options=CPU_OPTIONS)
            except jax.errors.JaxRuntimeError:  # an XLA that no longer knows one of the options
                pass
        return lowered.compile()


def default_device() -> Any:
    """The device on which JAX computes now: `jax.default_device`, or the first one."""
    device = jax.config.jax_default_device
    return jax.devices(device)[0] if device is None or isinstance(device, str) else device


def num_threads(device: Any) -> int:
    """Chunks run at a time: one per core on CPU, one elsewhere."""
    if device.platform != "cpu" or not hasattr(os, "sched_getaffinity"):
        return 1
    return len(os.sched_getaffinity(0))


def get_program(operation: Callable[..., Any], algorithm: Any, example: tuple[Any, ...]) -> Any:
    """Trace `operation(algorithm, *arguments)` for one run, or fetch it from the cache.

    Returns the program and the algorithm's arrays, its first argument.
    """
    structure, arrays = split_algorithm(algorithm)
    leaves, tree = jax.tree.flatten((arrays, example))
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    return _trace(operation, structure, tree, shapes, default_device()), arrays


@lru_cache(maxsize=256)
def _trace(operation: Any, structure: Any, tree: Any, shapes: Any, device: Any) -> Program:
    def one_run(arrays: list[Any], arguments: tuple[Any, ...]) -> Any:
        return operation(join_algorithm(structure, arrays), *arguments)

    abstract = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    arrays, example = jax.tree.unflatten(tree, abstract)
    return Program(one_run, arrays, example, device)


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
        with program.context():
            return jax.tree.map(np.asarray, execute(arrays, key, chunk))

    pieces = []
    for piece in _in_threads(run, range(0, num, size), num_threads(program.device)):
        pieces.append(piece)
        report(min(size, num - size * (len(pieces) - 1)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *pieces)


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


def split_algorithm(algorithm: Any) -> tuple[Any, list[Any]]:
    """Hashable structure and float64 arrays of an algorithm."""
    leaves, tree = jax.tree.flatten(algorithm)
    traced = tuple(eqx.is_array(leaf) or isinstance(leaf, float) for leaf in leaves)
    arrays = [_promote(leaf) for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    static = [None if is_traced else leaf for leaf, is_traced in zip(leaves, traced, strict=True)]
    return (tree, traced, tuple(static)), arrays


def join_algorithm(structure: Any, arrays: list[Any]) -> Any:
    """Inverse of `split_algorithm`."""
    tree, traced, static = structure
    remaining = iter(arrays)
    leaves = [
        next(remaining) if is_traced else leaf
        for is_traced, leaf in zip(traced, static, strict=True)
    ]
    return jax.tree.unflatten(tree, leaves)


def _promote(leaf: Any) -> Any:
    dtype = jnp.result_type(leaf)
    return jnp.asarray(leaf, jnp.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype)
