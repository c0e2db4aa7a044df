"""Keywords that every call which makes runs accepts besides its own, and hands on to `aide.draw`.

`aide.draw` explains each of them.
"""

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Protocol, TypedDict, runtime_checkable

from aide.engine.draws import Draws


@runtime_checkable
class Client(Protocol):
    """A client of a cluster that has an executor, such as `distributed.Client` of Dask."""

    def get_executor(self) -> Executor:
        """The executor that runs on the cluster."""
        ...


class RunOptions(TypedDict, total=False):
    """How runs are made; accepted by every call that makes runs."""

    measure_looseness: bool
    keep_values: bool | None
    chunk_size: int | None
    progress: bool | None
    executor: Executor | Client | None
    unchanged: bool


class OneTargetOptions(RunOptions, total=False):
    """How the runs of one target are made and kept."""

    checkpoint: str | Path | None


class EstimateOptions(OneTargetOptions, total=False):
    """What a call with one target accepts."""

    share: Draws | None
    extend: Draws | None
    first_run: int


class Sizes(TypedDict, total=False):
    """How many runs there are, of what kind."""

    num_gold: int | None
    num_target: int | None
    num_meta_gold: int
    num_meta_target: int
    measure_looseness: bool
    first_run: int
    chunk_size: int | None


class CompareOptions(RunOptions, total=False):
    """What a call with several targets accepts: a file for each of them."""

    share: Draws | None
    first_run: int
    checkpoint: Mapping[str, str | Path] | None


class ManyOptions(CompareOptions, Sizes, total=False):
    """What `aide.engine.draw_many` accepts."""
