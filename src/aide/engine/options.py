"""Types of the arguments that functions pass on to `aide.draw`, in two groups.

Public functions have every keyword in their own signature, with the type and the default that it
has in `aide.draw`, where it is explained; `tests/test_signatures.py` compares them.
"""

from concurrent.futures import Executor
from typing import Protocol, TypedDict, runtime_checkable


@runtime_checkable
class Client(Protocol):
    """A client of a cluster that has an executor, such as `distributed.Client` of Dask."""

    def get_executor(self) -> Executor:
        """The executor that runs on the cluster."""
        ...


class RunOptions(TypedDict, total=False):
    """Options of making runs, which every call that makes runs accepts."""

    measure_looseness: bool
    keep_values: bool | None
    chunk_size: int | None
    progress: bool | None
    executor: Executor | Client | None
    unchanged: bool


class Sizes(TypedDict, total=False):
    """Numbers of runs of each kind."""

    num_gold: int | None
    num_target: int | None
    num_meta_gold: int
    num_meta_target: int
    measure_looseness: bool
    first_run: int
    chunk_size: int | None
