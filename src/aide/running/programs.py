r"""Programs: one operation of one object, traced for one run, compiled for chunks of runs.

Arrays and floats of an object are traced; integers, strings and functions are compiled in, so that
one program serves all data, hyperparameters and seeds. On CPU, chunks small enough for the cache
run on one thread per core, which beat XLA's own parallelism by 1.4.

Everything here is in double precision: $\log p(x, y) - \log\hat p(y)$ cancels large numbers.
Floating-point arrays of an object are promoted to float64 first. The same key gives other draws in
double than in single precision, so results are comparable with this wrapper only.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from aide._core.identity import identity_of, is_packaged, program_identity_of
from aide._core.validate import check_concrete, check_memory, deferred_errors
from aide.running.chunks import Chunk, Footprint
from aide.running.collection import without_collection
from aide.running.device import QUICK, Place
from aide.running.store import StoredProgram, folder_of_programs, stored_program
from aide.running.structure import split_algorithm
from aide.running.surroundings import surroundings_of

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


class Facts(NamedTuple):
    """What is known of a traced program: what one run returns, and how much it needs."""

    output: Any
    footprint: Footprint


class Program:
    """One operation: traced for one run, compiled for chunks of runs."""

    def __init__(
        self,
        one_run: Callable[..., Any],
        shapes: tuple[Any, ...],
        place: Place,
        options: dict[str, Any],
        entry: StoredProgram | None = None,
    ):
        self.place = place
        self._one_run, self._shapes = one_run, shapes
        self._options, self._entry = options, entry
        self._compiled: dict[int, Any] = {}
        self._lock = Lock()
        self._chunk: Any = None
        self._facts = self._find_facts()
        check_memory("one run", self._facts.footprint.hot)

    @property
    def output(self) -> Any:
        """Shapes and dtypes of what one run returns."""
        return self._facts.output

    def size(self, chunk: Chunk) -> int:
        """Runs per chunk."""
        most = self._facts.footprint.most_runs(self.place)
        return chunk.size(most, self.place.num_threads)

    def compiled(self, size: int) -> Callable[..., Any]:
        """The program for chunks of `size` runs; compiled at most once, callable in threads."""
        with self._lock:
            if size not in self._compiled:
                self._compiled[size] = self._compile(size)
            return self._compiled[size]

    def _find_facts(self) -> Facts:
        facts = None if self._entry is None else self._entry.load_facts()
        if isinstance(facts, Facts):
            return facts
        facts = self._trace()
        if self._entry is not None:
            self._entry.save_facts(facts)
        return facts

    def _trace(self) -> Facts:
        self._chunk, facts = _trace(self._one_run, *self._shapes)
        self._one_run = _trace_again  # what was traced need not stay alive
        return facts

    def _traced_chunk(self) -> Any:
        if self._chunk is None:
            self._trace()
        return self._chunk

    def _compile(self, size: int) -> Any:
        if self._entry is not None:
            stored = self._entry.load_executable(size, self.place.device)
            if stored is not None:
                return stored
        arrays, (key, *row) = self._shapes
        rows = jax.tree.map(lambda s: jax.ShapeDtypeStruct((size, *s.shape), s.dtype), tuple(row))
        with self.place.entered():
            with without_collection():
                lowered = self._traced_chunk().lower(arrays, key, rows)
            compiled = self._compile_lowered(lowered)
        if self._entry is not None:
            self._entry.save_executable(size, compiled)
        return compiled

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
    """Trace `operation(subject, *example)` for one run, or fetch it.

    Returns the program and the arrays of the subject, its first argument. Programs are kept for the
    life of the process under everything that is compiled into them: code, settings, and the data
    that functions close over or read from their modules (`aide._core.identity`). What cannot be
    looked into may change until the next call: its programs live as long as somebody holds them.
    """
    structure, arrays = split_algorithm(subject)
    leaves, tree = jax.tree.flatten((arrays, example))
    types = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    identity = program_identity_of(subject)
    name = (operation, structure.identity(), identity.digest, tree, types, place)
    if name in _kept and not identity.unseen:
        return _kept[name], arrays

    def one_run(arrays: list[Any], arguments: tuple[Any, ...]) -> Any:
        return operation(structure.join(arrays), *arguments)

    shapes = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*one) for one in types])
    options = _options(subject, place)
    entry = None
    if folder_of_programs() is not None and is_packaged((operation, subject)):
        what = identity_of(operation).digest, identity.digest, str(tree), str(types)
        entry = stored_program(*what, *sorted(options.items()), *surroundings_of(place))
    program = Program(one_run, shapes, place, options, entry)
    if not identity.unseen:
        if len(_kept) >= MOST_PROGRAMS:
            _kept.pop(next(iter(_kept)), None)
        _kept[name] = program
    return program, arrays


@contextmanager
def compile_quickly(quick: bool = True) -> Iterator[None]:
    """Compile what is traced here for a short compilation rather than for speed."""
    token = QUICK.set(quick)
    try:
        yield
    finally:
        QUICK.reset(token)


def _options(subject: Any, place: Place) -> dict[str, Any]:
    if place.quick:
        return QUICK_OPTIONS
    return SPEED_OPTIONS if getattr(subject, "compile_for_speed", False) else CPU_OPTIONS


def _trace(
    one_run: Callable[..., Any], arrays: list[Any], example: tuple[Any, ...]
) -> tuple[Any, Facts]:
    """The function of a chunk of runs, and what is known of it."""

    def once(*arguments: Any) -> Any:  # JAX keeps what it traced as long as the function lives
        return one_run(*arguments)

    with deferred_errors(), without_collection():
        jaxpr, output = jax.make_jaxpr(once, return_shape=True)(arrays, example)
    del once
    check_concrete("aide", jaxpr.consts)
    # Copies: JAX 0.10 shares its conversions of NumPy arrays between single and double
    # precision as long as one of them is alive, and this program lives long.
    jaxpr = ClosedJaxpr(jaxpr.jaxpr, [_copy(constant) for constant in jaxpr.consts])
    run_one = jaxpr_as_fun(jaxpr)
    tree = jax.tree.structure(output)

    def run_chunk(arrays: list[Any], key: Any, rows: tuple[Any, ...]) -> Any:
        def run(row: tuple[Any, ...]) -> Any:
            flat = jax.tree.leaves((arrays, (key, *row)))
            return jax.tree.unflatten(tree, run_one(*flat))

        return jax.vmap(run)(rows)

    return jax.jit(run_chunk), Facts(output, Footprint.of(jaxpr.jaxpr))


def _trace_again(*_: Any) -> Any:
    raise AssertionError("a program is traced once")


def _copy(constant: Any) -> Any:
    return jnp.array(constant) if isinstance(constant, np.ndarray | np.generic) else constant
