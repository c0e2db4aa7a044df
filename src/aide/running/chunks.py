"""How many runs are computed at a time: as many as fit, read off the traced program of one run."""

import math
from typing import Any, NamedTuple

from aide._core.jax_compat import inner_jaxprs
from aide.running.device import Place


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
