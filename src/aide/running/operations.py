"""The two operations on whole batches of runs, for traceable and for plain Python algorithms."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aide._core.algorithm import describe
from aide._core.numerics import as_log
from aide._core.random import CROSS_META, OWN_META, SIMULATE, run_key, stream_key
from aide._core.tracing import is_refusal
from aide.algorithms.python import PythonAlgorithm
from aide.running.programs import Program, get_program, num_threads, run_chunks

Report = Callable[[int], None]


class Chunk(NamedTuple):
    """How many runs to compute at a time: `fixed`, or what suits calls with up to `rows` runs."""

    rows: int
    fixed: int | None

    def size(self, program: Program) -> int:
        """Runs per chunk for a program."""
        return program.chunk_size(self.rows) if self.fixed is None else min(self.fixed, self.rows)


def simulate_runs(
    key: Any,
    role: int,
    algorithm: Any,
    runs: np.ndarray,
    chunk: Chunk,
    report: Report,
) -> tuple[Any, np.ndarray]:
    r"""Outputs and own-trace $\log\xi$ of the given runs."""
    if isinstance(algorithm, PythonAlgorithm):
        draws = []
        for run in runs:
            draws.append(algorithm.simulate(_generator(key, role, run, SIMULATE, 0)))
            report(1)
        try:
            values = jax.tree.map(lambda *leaves: np.stack(leaves), *(value for value, _ in draws))
        except ValueError as error:
            raise ValueError(
                f"{algorithm.label}: simulate must return values of the same structure and shape "
                f"in every run ({error})."
            ) from None
        return values, np.array([log_xi for _, log_xi in draws])
    program, arrays = _program(_simulate, "simulate", algorithm, (key, jnp.uint32(0)))
    stream = stream_key(key, role, SIMULATE)
    rows = (runs.astype(np.uint32),)
    return run_chunks(program, arrays, stream, rows, chunk.size(program), report)


def replay_run(key: Any, role: int, algorithm: Any, run: int) -> None:
    """Repeat one run of a traceable algorithm outside of compiled code, for its errors."""
    if not isinstance(algorithm, PythonAlgorithm):
        algorithm.simulate(run_key(stream_key(key, role, SIMULATE), run, 0))


def regenerate_runs(
    key: Any,
    role: int,
    algorithm: Any,
    values: Any,
    runs: np.ndarray,
    metas: np.ndarray,
    own: bool,
    chunk: Chunk,
    report: Report,
) -> np.ndarray:
    r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column).

    `values` holds one output per run; `own` says whether `algorithm` produced them.
    """
    purpose = OWN_META if own else CROSS_META
    shape = (len(runs), len(metas))
    if isinstance(algorithm, PythonAlgorithm):
        log_xi = np.empty(shape)
        for row, run in enumerate(runs):
            value = jax.tree.map(lambda a, row=row: a[row], values)
            for column, meta in enumerate(metas):
                rng = _generator(key, role, run, purpose, meta)
                log_xi[row, column] = algorithm.regenerate(rng, value)
                report(1)
        return log_xi
    x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), values)
    example = (key, jnp.uint32(0), jnp.uint32(0), x)
    program, arrays = _program(_regenerate, "regenerate", algorithm, example)
    row = np.repeat(np.arange(len(runs)), len(metas))
    rows = (runs.astype(np.uint32)[row], np.tile(metas.astype(np.uint32), len(runs)))
    stream = stream_key(key, role, purpose)
    gathered = (values, row)
    size = chunk.size(program)
    log_xi = run_chunks(program, arrays, stream, rows, size, report, gathered)
    return log_xi.reshape(shape)


class Probe(NamedTuple):
    r"""What one output looks like, and how to run the algorithm.

    Attributes:
        output: Shapes and dtypes of one output.
        chunk_size: Runs per chunk, given how many there are.
        num_threads: Chunks at a time.
        first_run: Output and own-trace $\log\xi$ of the first run, given the chunks it would run
            in.
    """

    output: Any
    chunk_size: Callable[[int], int]
    num_threads: int
    first_run: Callable[[Chunk], tuple[Any, float]]


def probe_output(key: Any, role: int, algorithm: Any, first_run: int) -> Probe:
    """Look at an algorithm's output: a traceable one is traced, plain Python code run once."""
    if isinstance(algorithm, PythonAlgorithm):
        value, log_xi = algorithm.simulate(_generator(key, role, first_run, SIMULATE, 0))
        return Probe(value, lambda count: 1, 1, lambda chunk: (value, log_xi))

    def run_first(chunk: Chunk) -> tuple[Any, float]:
        runs = np.array([first_run])
        values, log_xi = simulate_runs(key, role, algorithm, runs, chunk, lambda done: None)
        return jax.tree.map(lambda a: a[0], values), float(log_xi[0])

    program, _ = _program(_simulate, "simulate", algorithm, (key, jnp.uint32(0)))
    threads = num_threads(program.device)
    return Probe(program.result[0], program.chunk_size, threads, run_first)


def compile_tasks(
    key: Any, algorithm: Any, output: Any, simulate: Chunk, regenerate: Chunk
) -> list[Callable[[], Any]]:
    """Functions that compile what the algorithm will need; they may run in threads."""
    if isinstance(algorithm, PythonAlgorithm):
        return []
    first, _ = _program(_simulate, "simulate", algorithm, (key, jnp.uint32(0)))
    example = (key, jnp.uint32(0), jnp.uint32(0), output)
    second, _ = _program(_regenerate, "regenerate", algorithm, example)
    return [
        lambda: first.compiled(simulate.size(first)),
        lambda: second.compiled(regenerate.size(second)),
    ]


def _simulate(algorithm: Any, stream: Any, run: Any) -> Any:
    draw = algorithm.simulate(run_key(stream, run, 0))
    if not isinstance(draw, tuple) or len(draw) != 2:
        raise TypeError(
            f"{describe(algorithm)}: simulate must return aide.Draw(value, log_xi), got "
            f"{type(draw).__name__}."
        )
    value, log_xi = draw
    return jax.tree.map(jnp.asarray, value), _scalar(algorithm, "simulate", log_xi)


def _regenerate(algorithm: Any, stream: Any, run: Any, meta: Any, x: Any) -> Any:
    log_xi = algorithm.regenerate(run_key(stream, run, meta), x)
    return _scalar(algorithm, "regenerate", log_xi)


def _scalar(algorithm: Any, method: str, log_xi: Any) -> Any:
    if log_xi is None or isinstance(log_xi, str):
        raise TypeError(
            f"{describe(algorithm)}: {method} must give a number log_xi, got {log_xi!r}."
        )
    if jnp.shape(log_xi) != ():
        raise ValueError(
            f"{describe(algorithm)}: {method} must give one number log_xi per run, got shape "
            f"{jnp.shape(log_xi)}. A log density of a vector must be summed over its components."
        )
    return as_log(log_xi)


def _program(operation: Any, method: str, algorithm: Any, example: Any) -> Any:
    try:
        return get_program(operation, algorithm, example)
    except Exception as error:
        if not is_refusal(error):
            error.add_note(f"(raised by {method} of {describe(algorithm)})")
            raise
        raise TypeError(
            f"{describe(algorithm)}: {method} is not traceable by JAX. It said: "
            f"{str(error).splitlines()[0]} Write the method with jax.numpy and jax.lax, or, if it "
            "is plain Python or NumPy code, wrap it: aide.PythonAlgorithm(algorithm)."
        ) from error


def _generator(key: Any, role: int, run: int, purpose: int, meta: int) -> np.random.Generator:
    words = np.asarray(jax.random.key_data(key)).ravel()
    seed = np.random.SeedSequence([*words.tolist(), role, int(run), purpose, int(meta)])
    return np.random.Generator(np.random.Philox(seed))
