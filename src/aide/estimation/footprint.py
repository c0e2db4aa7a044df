"""How many runs fit into a chunk, read off the traced program of one run."""

from typing import Any

import numpy as np
from jax.extend.core import jaxprs_in_params

CPU_CHUNK_BYTES = 128 * 1024
"""Size of the largest array inside a loop of a chunk: on CPU the working set must fit the cache."""
GPU_CHUNK_BYTES = 64 * 1024**2
MEMORY_BYTES = 256 * 1024**2
"""Bound on everything one chunk keeps at once, genealogies included."""
MOST_RUNS = 2**14


def largest_chunk(jaxpr: Any, on_cpu: bool) -> int:
    """Runs per chunk, a power of two."""
    hot, kept = footprint(jaxpr)
    budget = CPU_CHUNK_BYTES if on_cpu else GPU_CHUNK_BYTES
    most = min(budget // hot, MEMORY_BYTES // kept, MOST_RUNS if on_cpu else 2**20)
    return 2 ** max(0, most.bit_length() - 1)


def footprint(jaxpr: Any) -> tuple[int, int]:
    """Bytes of the largest array inside the loops of a program, and of all it keeps, per run.

    Without loops, of the largest array at all.
    """
    loops, largest, kept = [], 8, 8
    for equation in jaxpr.eqns:
        size = sum(_bytes(variable.aval) for variable in equation.outvars)
        for inner in jaxprs_in_params(equation.params):
            hot, kept_inside = footprint(inner)
            loops.append(hot)
            size += kept_inside
        largest = max(largest, *(_bytes(variable.aval) for variable in equation.outvars), 8)
        kept += size
    return max(loops) if loops else largest, kept


def _bytes(aval: Any) -> int:
    shape = getattr(aval, "shape", ())
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 8)
    return int(np.prod(shape, dtype=np.int64)) * itemsize
