r"""Programs: one operation of one object, traced for one run, compiled for chunks of runs.

Arrays and floats of an object are traced; integers, strings and functions are compiled in, so that
one program serves all data, hyperparameters and seeds. On CPU, chunks small enough for the cache
run on one thread per core, which beat XLA's own parallelism by 1.4.

An operation is traced anew in every call of ours, and once within it (`tracing.one_call`). What is
compiled is kept for the life of the process under the digest of the traced program
(`program_digest`): whatever changes a number changes the digest, and is compiled afresh.

Everything here is in double precision: $\log p(x, y) - \log\hat p(y)$ cancels large numbers.
Floating-point arrays of an object are promoted to float64 first. The same key gives other draws in
double than in single precision, so results are comparable with this wrapper only.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.jax_compat import ClosedJaxpr, jaxpr_function, setting
from aide._core.validate import check_concrete, check_memory, deferred_errors
from aide.engine.programs.identity import GENERATOR_SETTINGS
from aide.engine.programs.places import QUICK, Chunk, Footprint, Place
from aide.engine.programs.program_digest import ProgramDigest, digest_of_program
from aide.engine.programs.tracing import (
    Call,
    one_call,
    split_algorithm,
    tracing,
    without_collection,
)

_LOOPS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
"""An option that XLA has no more from JAX 0.11 on."""
SPEED_OPTIONS = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""For algorithms that set `compile_for_speed`: Markov chains in loops run 2.5 times faster."""
CPU_OPTIONS = {**SPEED_OPTIONS, **_LOOPS}
"""Halve the time to compile a particle filter and lose no speed (measured on JAX 0.10)."""
QUICK_OPTIONS = {"xla_backend_optimization_level": 0, **_LOOPS}
"""For tiny programs, of which compiling is the cost."""

MAX_EXECUTABLES = 512
"""Compiled programs that are kept in this process; beyond that, those not used for longest go."""


class _Slot:
    """The place of one compiled program, which one thread fills and all use."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.executable: Any = None
        self.pinned: tuple[Any, ...] = ()


_slots: OrderedDict[Hashable, _Slot] = OrderedDict()
_slots_lock = Lock()


class Program:
    """One operation of one object: traced for one run, compiled for chunks of runs.

    Attributes:
        place: Where it runs.
        output: Shapes and dtypes of what one run returns.
        digest: What it computes.
    """

    def __init__(
        self,
        one_run: Callable[..., Any],
        shapes: tuple[Any, ...],
        place: Place,
        options: dict[str, Any],
        call: Call,
    ):
        self.place = place
        self._shapes, self._options, self._call = shapes, options, call
        with deferred_errors(), without_collection(), tracing(call):
            jaxpr, self.output = jax.make_jaxpr(one_run, return_shape=True)(*shapes)
        check_concrete("aide", jaxpr.consts)
        # Copies: JAX 0.10 shares its conversions of NumPy arrays between single and double
        # precision as long as one of them is alive, and compiled programs live long.
        jaxpr = ClosedJaxpr(jaxpr.jaxpr, [_copy(constant) for constant in jaxpr.consts])
        self._jaxpr = jaxpr
        self._footprint = Footprint.of(jaxpr.jaxpr)
        check_memory("one run", self._footprint.hot)
        with without_collection():
            self.digest: ProgramDigest = digest_of_program(jaxpr)
            if self.digest.has_rules:
                self.digest = self._digest_of_a_batch()
        settings = tuple(setting(name) for name in GENERATOR_SETTINGS)
        tree = jax.tree.structure((shapes, self.output))
        self._name = (self.digest.digest, tree, place, tuple(sorted(options.items())), settings)

    def size(self, chunk: Chunk) -> int:
        """Runs per chunk."""
        return chunk.size(self._footprint.most_runs(self.place), self.place.num_threads)

    def compiled(self, size: int) -> Callable[..., Any]:
        """The program for chunks of `size` runs; compiled at most once, callable in threads."""
        name = (*self._name, size)
        with _slots_lock:
            slot = _slots.setdefault(name, _Slot())
            _slots.move_to_end(name)
            while len(_slots) > MAX_EXECUTABLES:
                _slots.popitem(last=False)
        with slot.lock:
            if slot.executable is None:
                slot.pinned = self.digest.opaque  # their addresses are part of the name
                slot.executable = self._compile(size)
            return slot.executable

    def _compile(self, size: int) -> Any:
        with self.place.entered():
            with without_collection(), tracing(self._call):
                lowered = jax.jit(self._run_chunk).lower(*self._chunk_of(size))
            return self._compile_lowered(lowered)

    def _digest_of_a_batch(self) -> ProgramDigest:
        """The digest of two runs at once, in which rules for batches have been traced."""
        with tracing(self._call):
            return digest_of_program(jax.make_jaxpr(self._run_chunk)(*self._chunk_of(2)))

    def _chunk_of(self, size: int) -> tuple[Any, Any, Any]:
        """Shapes of the arguments of a chunk."""
        arrays, (key, *row) = self._shapes
        rows = jax.tree.map(lambda s: jax.ShapeDtypeStruct((size, *s.shape), s.dtype), tuple(row))
        return arrays, key, rows

    def _run_chunk(self, arrays: list[Any], key: Any, rows: tuple[Any, ...]) -> Any:
        run_one, tree = jaxpr_function(self._jaxpr), jax.tree.structure(self.output)

        def run(row: tuple[Any, ...]) -> Any:
            flat = jax.tree.leaves((arrays, (key, *row)))
            return jax.tree.unflatten(tree, run_one(*flat))

        return jax.vmap(run)(rows)

    def _compile_lowered(self, lowered: Any) -> Any:
        if self.place.is_cpu:
            try:
                return lowered.compile(compiler_options=self._options)
            except jax.errors.JaxRuntimeError:  # an XLA that no longer knows one of the options
                pass
        return lowered.compile()


def get_program(
    operation: Callable[..., Any], subject: Any, example: tuple[Any, ...], place: Place
) -> tuple[Program, list[Any]]:
    """Trace `operation(subject, *example)` for one run, or find it traced in this call.

    Returns the program and the arrays of the subject, its first argument. Within a call, objects
    share a program if they have the same structure, settings and functions; functions are told
    apart by their place in memory, never by their code.
    """
    structure, arrays = split_algorithm(subject)
    leaves, tree = jax.tree.flatten((arrays, example))
    types = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    options = _options(subject, place)
    name = (operation, structure.name(), tree, types, place, tuple(sorted(options.items())))

    def one_run(arrays: list[Any], arguments: tuple[Any, ...]) -> Any:
        return operation(structure.join(arrays), *arguments)

    with one_call() as call:

        def make() -> Program:
            shapes = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*one) for one in types])
            return Program(one_run, shapes, place, options, call)

        program = call.once(name, make, lambda found: found.digest.digest, keep_alive=subject)
        return program, arrays


def num_executables() -> int:
    """Compiled programs that this process holds."""
    return len(_slots)


def forget_executables() -> None:
    """Drop all compiled programs; the next use compiles them again."""
    with _slots_lock:
        _slots.clear()


@contextmanager
def compile_quickly(quick: bool = True) -> Iterator[None]:
    """Compile what is traced here for a short compilation rather than for speed."""
    token = QUICK.set(quick)
    try:
        yield
    finally:
        QUICK.reset(token)


def _copy(constant: Any) -> Any:
    """A NumPy array, or JAX's conversion of one, as an array of its own."""
    if not isinstance(constant, np.ndarray | np.generic):
        return constant
    with jax.enable_x64(True):
        return jnp.array(np.asarray(constant))


def _options(subject: Any, place: Place) -> dict[str, Any]:
    if place.quick:
        return QUICK_OPTIONS
    return SPEED_OPTIONS if getattr(subject, "compile_for_speed", False) else CPU_OPTIONS
