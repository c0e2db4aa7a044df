"""The operations that run an algorithm: look at an output, simulate, regenerate.

Code in another framework, or on another kind of machine, is run by another implementation: one
file, and one line in `aide.engine.runners.choose`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from aide._core.types import Key, Role, Value
from aide.engine.programs.identity import Identity
from aide.engine.programs.places import Chunk
from aide.engine.programs.prepared import Report


class Look(NamedTuple):
    """The facts about an algorithm that a runner finds before runs.

    Attributes:
        output: Shapes and dtypes of one output.
        chunk_size: Runs computed at a time.
        num_threads: Chunks at a time.
        is_shared: Whether runs and meta-inference runs share a program: chunks of one size then
            compile once.
    """

    output: Any
    chunk_size: int
    num_threads: int
    is_shared: bool = False


class MetaRuns(NamedTuple):
    """A request for meta-inference: every meta index at every output.

    Attributes:
        role: The role of the algorithm that made the outputs.
        values: The outputs, stacked.
        runs: The indices of the runs, one per output.
        metas: Meta indices.
        own: Whether the algorithm that made the outputs also scores them.
    """

    role: Role
    values: Value
    runs: np.ndarray
    metas: np.ndarray
    own: bool


class Runner(Protocol):
    """The runner of one algorithm.

    Every number is a function of (key, role, run, meta index) and the algorithm alone; runners can
    be pickled if their algorithm can, and called in threads.
    """

    @property
    def algorithm(self) -> Any:
        """The algorithm."""
        ...

    def look(self, key: Key, role: Role, first_run: int, chunk: Chunk) -> Look:
        """Find the facts of `Look`; run number `first_run` may be made for that."""
        ...

    def identity(self, key: Key) -> Identity:
        """The identity of the algorithm, traced in this call; nothing is compiled or run."""
        ...

    def compile_tasks(
        self, key: Key, output: Any, simulate: Chunk, regenerate: Chunk
    ) -> Iterator[Callable[[], None]]:
        """Functions that prepare the programs for such outputs; they may run in threads.

        They are yielded one by one, so that some may run while others are prepared.
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

    def meta_seconds(self, key: Key, output: Any) -> float:
        """Estimated processor seconds of a meta-inference run on any machine; 0 if unknown."""
        ...

    def replay(self, key: Key, role: Role, run: int) -> None:
        """Repeat one run outside of compiled code, for its errors."""
        ...
