"""The draw stage: run both algorithms, score every output with both."""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.types import Key
from aide.draws.draws import Draws
from aide.draws.known import check_repeated, check_sources, known_runs
from aide.draws.plan import make_plan
from aide.draws.request import make_request
from aide.draws.spread import as_executor, num_parts_for
from aide.draws.stage import progress_of, run_plan
from aide.draws.storage.checkpoint import Checkpoint
from aide.running.call import one_call
from aide.running.threads import compile_all


@one_call()
def draw(
    key: Key | int,
    gold: InferenceAlgorithm,
    target: InferenceAlgorithm,
    *,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    extend: Draws | None = None,
    first_run: int = 0,
    checkpoint: str | Path | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Any = None,
    unchanged: bool = False,
) -> Draws:
    r"""Run `gold` and `target`; score each output with both (Algorithm 2 up to its last line).

    Every $\log\xi$ is a function of (key, role, run, meta index) and its algorithm alone.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm being measured.
        num_gold: Runs of the gold standard, N_gold: 500 unless stated, or all draws of
            `aide.ReferenceDraws` if it has fewer (500 of more are spread evenly over them).
        num_target: Runs of the target, N_target; the same.
        num_meta_gold: Meta-inference runs of the gold standard per output, M_gold.
        num_meta_target: Meta-inference runs of the target per output, M_target.
        looseness: Draw one more meta-inference run per output, which measures how loose the bound
            is.
        keep_values: Keep the outputs, which errors of expectations, probes and evidence estimates
            need; by default if they take 64 MiB at most and none of the runs was stored without
            (checkpoints store outputs only if `True`).
        share: Draws of the same gold standard with another target and the same key: their gold
            runs are used again. A gold standard that changed since is an error.
        extend: Draws of the same pair and key with fewer runs or meta-runs: only what is missing
            is run.
        first_run: Index of the first run, to spread runs over machines: give each its own range,
            then `concatenate`.
        checkpoint: A file (netCDF, or a folder `.zarr`) that keeps finished blocks and only ever
            grows; calling again continues there. Algorithms that changed since are refused.
        chunk_size: Runs computed at a time; chosen to fit the cache. Never changes the numbers
            beyond rounding.
        progress: Show a progress bar; by default if the run takes long and a person watches.
        executor: Runs blocks of runs elsewhere: any `concurrent.futures.Executor` (processes,
            MPI), a `distributed.Client` (Dask), or `aide.draws.Devices` (several GPUs). By default
            they run here, on all cores or the first GPU. The numbers are the same bits (with
            `Devices`, up to rounding unless `chunk_size` is given), and progress counts whole
            blocks.
        unchanged: Say that an algorithm in plain Python, which JAX cannot trace, is what it was
            when the stored runs were made. Without that its runs are used again only if it states
            what it is by an attribute `aide_identity`.
    """
    request = make_request(
        key,
        gold,
        target,
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        looseness=looseness,
        first_run=first_run,
        chunk_size=chunk_size,
        keep_values=bool(keep_values),
    )
    executor = as_executor(executor)
    file = None if checkpoint is None else Checkpoint(checkpoint)
    known, sources = known_runs(request, share, extend, file)
    with progress_of(request, known, progress) as bar:
        plan = make_plan(request, num_parts=num_parts_for(executor))
        check_sources(plan, sources, unchanged)
        if executor is None:
            compile_all(plan.compile_tasks())
        check_repeated(plan, known)
        draws = run_plan(plan, known, file, executor, bar)
    return draws.keeping(keep_values)
