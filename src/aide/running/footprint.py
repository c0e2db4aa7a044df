"""How many runs fit into a chunk, read off the traced program of one run."""

from typing import Any, NamedTuple

import numpy as np
from jax.extend.core import jaxprs_in_params


class Budget(NamedTuple):
    """Limits of a chunk.

    Attributes:
        hot: Bytes of the largest array inside a loop. On CPU the working set must fit the cache.
        kept: Bytes of everything kept at once, genealogies included.
        runs: Number of runs.
    """

    hot: int
    kept: int
    runs: int


CPU = Budget(128 * 2**10, 256 * 2**20, 2**12)
ACCELERATOR = Budget(64 * 2**20, 8 * 2**30, 2**20)


def largest_chunk(jaxpr: Any, on_cpu: bool) -> int:
    """Runs per chunk, a power of two."""
    hot, kept = footprint(jaxpr)
    budget = CPU if on_cpu else ACCELERATOR
    most = min(budget.hot // hot, budget.kept // kept, budget.runs)
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
