r"""Programs: one operation of one object, traced for one run, compiled for chunks of runs.

Arrays and floats of an object are traced; integers, strings and functions are compiled in, so that
one program serves all data, hyperparameters and seeds. On CPU, chunks small enough for the cache
run on one thread per core, which beat XLA's own parallelism by 1.4.

An operation is traced anew in every call, and once within the call (`tracing.one_call`). Compiled
programs are kept for the life of the process under the digest of the traced program
(`ProgramDigest`): every change of a number changes the digest, and the program is compiled anew.

Everything is in double precision: $\log p(x, y) - \log\hat p(y)$ cancels large numbers.
Floating-point arrays of an object are promoted to float64 first. The same key gives other draws in
double than in single precision, so that results are comparable only with others of this library.

`keep_programs` keeps compiled programs between processes: JAX's own cache, in a folder of the user.
JAX names a program by its lowered form, which contains every constant, by the options of the
compiler and by the versions and the processor: a program that changed is compiled anew. Tracing
and lowering are repeated in every process.
"""

import os
import sys
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.jax_compat import (
    ClosedJaxpr,
    compile_with,
    jaxpr_function,
    keep_compiled_in,
    setting,
)
from aide._core.validate import check_concrete, check_memory
from aide.engine.programs.identity import GENERATOR_SETTINGS, ProgramDigest, digest_of_program
from aide.engine.programs.places import (
    CHECK,
    QUICK,
    SECONDS_PER_OPERATION,
    Chunk,
    Footprint,
    Place,
    operations_of,
)
from aide.engine.programs.sending import Sent
from aide.engine.programs.tracing import (
    Call,
    tracing,
    without_collection,
)

_LOOPS = {} if jax.__version_info__ >= (0, 11) else {"xla_cpu_use_fusion_emitters": False}
"""On JAX 0.10 halves compilation times, and makes loops of Markov chains 1.4 times slower (measured
on JAX 0.10.2). Later versions of XLA have no such option."""
SPEED_OPTIONS = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""For algorithms with `compile_for_speed`. Beside XLA's defaults, compilation takes a fifth to a
quarter less and chains run 1.3 times faster (measured on JAX 0.11.2 and 0.12.0). From JAX 0.11 on
every program has these options, since nothing else there shortens compilation without a loss."""
CPU_OPTIONS = {**SPEED_OPTIONS, **_LOOPS}
"""For all other programs: the same as `SPEED_OPTIONS` from JAX 0.11 on."""
QUICK_OPTIONS = {"xla_backend_optimization_level": 0, **_LOOPS}
"""For tiny programs, whose cost is their compilation: on JAX 0.11.2 and 0.12.0 compilation takes
0.6 of the time with `SPEED_OPTIONS`, and runs take 4 to 5 times as long (measured)."""

MAX_EXECUTABLES = 512
"""Largest number of compiled programs in this process; the least recently used are dropped."""


class _Slot:
    """The place of one compiled program, which one thread fills and all threads use."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.executable: Any = None
        self.pinned: tuple[Any, ...] = ()


_slots: OrderedDict[Hashable, _Slot] = OrderedDict()
_slots_lock = Lock()


class Program:
    """One operation of one object: traced for one run, compiled for chunks of runs.

    Attributes:
        place: The place where it runs.
        output: Shapes and dtypes of the result of one run.
        digest: The digest of its computation.
        seconds: Estimated processor seconds of one run, the same on every machine.
        sent: The program on its way to workers, if it was sent.
    """

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        output: Any,
        shapes: tuple[Any, ...],
        place: Place,
        options: dict[str, Any],
        call: Call,
    ):
        self.place, self.output = place, output
        self.sent: Sent | None = None
        self._shapes, self._options, self._call = shapes, options, call
        check_concrete("aide", jaxpr.consts)
        # Copies, because JAX 0.10 shares its conversions of NumPy arrays between single and double
        # precision while one of them is alive, and compiled programs live long.
        jaxpr = ClosedJaxpr(jaxpr.jaxpr, [_copy(constant) for constant in jaxpr.consts])
        self._jaxpr = jaxpr
        self._footprint = Footprint.of(jaxpr.jaxpr)
        check_memory("one run", self._footprint.hot)
        self.seconds = SECONDS_PER_OPERATION * operations_of(jaxpr.jaxpr)
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
                CHECK.get()()
                slot.pinned = self.digest.opaque  # their addresses are part of the name
                slot.executable = self._compile(size)
            return slot.executable

    def _compile(self, size: int) -> Any:
        with self.place.entered():
            with without_collection(), tracing(self._call):
                lowered = jax.jit(self._run_chunk).lower(*self._chunk_of(size))
            return compile_with(lowered, self._options) if self.place.is_cpu else lowered.compile()

    def _digest_of_a_batch(self) -> ProgramDigest:
        """The digest of two runs at once, which includes rules for batches."""
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


def num_executables() -> int:
    """Number of compiled programs in this process."""
    return len(_slots)


def forget_executables() -> None:
    """Drop all compiled programs; the next use compiles them again."""
    with _slots_lock:
        _slots.clear()


@contextmanager
def compile_quickly(quick: bool = True) -> Iterator[None]:
    """Compile programs that are traced here for a short compilation rather than for speed."""
    token = QUICK.set(quick)
    try:
        yield
    finally:
        QUICK.reset(token)


def _copy(constant: Any) -> Any:
    """A copy of a NumPy array as an array of JAX that shares no conversion."""
    if not isinstance(constant, np.ndarray | np.generic):
        return constant
    with jax.enable_x64(True):
        return jnp.array(np.asarray(constant))


def options_for(subject: Any, place: Place) -> dict[str, Any]:
    """Options of the compiler for the programs of an object."""
    if place.quick:
        return QUICK_OPTIONS
    return SPEED_OPTIONS if getattr(subject, "compile_for_speed", False) else CPU_OPTIONS


MAX_BYTES = 2**30
"""Size of the folder in bytes (1 GiB, a choice), above which the oldest programs are deleted."""
_folder: Path | None = None


def keep_programs(folder: str | Path | None = None) -> None:
    """Keep compiled programs in a folder, so that the next process need not compile them again.

    Results are the same bits with and without it. A folder that cannot be written to is no error:
    a warning says so, and programs are compiled each time.

    Args:
        folder: The folder; by default the user's (`$XDG_CACHE_HOME/aide`, `~/.cache/aide`).

    Returns:
        Nothing: programs that are compiled from now on are kept.

    Example:
        >>> import tempfile
        >>> aide.keep_programs(tempfile.mkdtemp())  # without a folder: the user's own
    """
    global _folder
    path = "the user's cache folder"
    try:
        path = _default_folder() if folder is None else Path(folder).expanduser().absolute()
        (path / "xla").mkdir(mode=0o700, parents=True, exist_ok=True)
        _prune(path / "xla")
        with tempfile.TemporaryFile(dir=path):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: no home
        warnings.warn(
            f"compiled programs cannot be kept in {path} ({error}): they will be compiled each "
            "time. Choose a writable folder: aide.keep_programs(folder).",
            stacklevel=2,
        )
        return
    _folder = path
    keep_compiled_in(str(path / "xla"))


def folder_of_programs() -> Path | None:
    """The folder given to `keep_programs`; `None` if programs are not kept."""
    return _folder


def keep_programs_too(folder: Path | None) -> None:
    """In a worker: keep programs in the folder of the process that sent the work, if it has one."""
    if folder is not None and _folder is None:
        keep_programs(folder)


def _default_folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return (Path(given) if given else Path.home() / usual) / "aide"


def _prune(folder: Path) -> None:
    files = [(path.stat(), path) for path in folder.iterdir()]
    total = 0
    for status, path in sorted(files, key=lambda file: -file[0].st_mtime):
        total += status.st_size
        if total > MAX_BYTES:
            path.unlink(missing_ok=True)
