"""What it takes to run an algorithm: look at its output, simulate, regenerate.

Code in another framework, or on another kind of machine, is run by another implementation: one
file, and one line in `aide.engine.runners.choose`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from aide._core.types import Key, Role, Value
from aide.engine.programs.identity import Identity
from aide.engine.programs.map_runs import Report
from aide.engine.programs.places import Chunk


class Look(NamedTuple):
    """What a runner saw of its algorithm.

    Attributes:
        output: Shapes and dtypes of one output.
        chunk_size: Runs computed at a time.
        num_threads: Chunks at a time.
        is_shared: Whether runs and meta-runs share a program: chunks of one size share it compiled.
    """

    output: Any
    chunk_size: int
    num_threads: int
    is_shared: bool = False


class MetaRuns(NamedTuple):
    """Meta-inference that is asked for: every meta index at every output.

    Attributes:
        role: Whose runs the outputs are.
        values: The outputs, stacked.
        runs: The numbers of the runs, one per output.
        metas: Meta indices.
        own: Whether the runs are those of the algorithm that is asked.
    """

    role: Role
    values: Value
    runs: np.ndarray
    metas: np.ndarray
    own: bool


class Runner(Protocol):
    """Runs one algorithm.

    Every number is a function of (key, role, run, meta index) and the algorithm alone; runners can
    be pickled if their algorithm can, and called in threads.
    """

    @property
    def algorithm(self) -> Any:
        """What it runs."""
        ...

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Look at one output; `first_run` is the number of a run that may be made for that."""
        ...

    def identity(self, key: Key) -> Identity:
        """What the algorithm computes, traced in this call; nothing is compiled or run."""
        ...

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Functions that make ready what is needed for such outputs; they may run in threads.

        They come one by one, so that some may run while others are being prepared.
        """
        ...

    def simulate(
        self, key: Key, role: Role, runs: np.ndarray, chunk: Chunk, report: Report
    ) -> tuple[Value, np.ndarray]:
        r"""Outputs (stacked) and own-trace $\log\xi$ of the given runs."""
        ...

    def regenerate(self, key: Key, asked: MetaRuns, chunk: Chunk, report: Report) -> np.ndarray:
        r"""$\log\xi$ of fresh traces, for every run (row) and meta index (column)."""
        ...

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Repeat one run outside of compiled code, for its errors."""
        ...
