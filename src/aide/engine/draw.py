"""The draw stage: run both algorithms, score every output with both."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.keywords import keywords
from aide._core.types import GOLD, Key
from aide.engine.draws import Draws, Runs
from aide.engine.files import Checkpoint
from aide.engine.known import known_runs
from aide.engine.outputs import check_algorithm
from aide.engine.plan import Plan, make_plan
from aide.engine.programs.places import current_place
from aide.engine.programs.sharing import as_executor
from aide.engine.programs.tracing import one_call
from aide.engine.runners.choose import runner_of
from aide.engine.stage import Client, RunOptions, Sizes, num_parts_for, run_plan


@keywords("aide.draw")
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
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    extend: Draws | None = None,
    first_run: int = 0,
    checkpoint: str | Path | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Draws:
    r"""Run `gold` and `target`; score each output with both (Algorithm 2 up to its last line).

    Every $\log\xi$ is a function of (key, role, run, meta index) and its algorithm alone.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm that is measured.
        num_gold: Runs of the gold standard, N_gold; by default 500, or all draws of
            `aide.ReferenceDraws` if it has fewer (500 of more are spread evenly over them).
        num_target: Runs of the target, N_target; the default is that of `num_gold`.
        num_meta_gold: Meta-inference runs of the gold standard per output, M_gold.
        num_meta_target: Meta-inference runs of the target per output, M_target.
        measure_looseness: Draw one more meta-inference run per output, which measures how loose
            the bound is.
        keep_values: Keep the outputs, which errors of expectations, probes and evidence estimates
            need; by default if they take 64 MiB at most and no run was stored without its output
            (checkpoints store outputs only if `True`).
        share: Draws of the same gold standard with another target and the same key: their gold
            runs are used again. A gold standard that has changed since is an error.
        extend: Draws of the same pair and key with fewer runs or meta-inference runs: only the
            others are run.
        first_run: Index of the first run, to spread runs over machines: give each its own range,
            then `concatenate`.
        checkpoint: A file (netCDF, or a folder `.zarr`) that stores finished blocks and only ever
            grows; the same call continues there. Algorithms that have changed since are refused.
        chunk_size: Runs computed at a time; chosen to fit the cache. Never changes the numbers
            beyond rounding.
        progress: Show a progress bar; by default in long runs at a terminal.
        executor: Runs blocks of runs elsewhere: any `concurrent.futures.Executor` (processes,
            MPI), a `distributed.Client` (Dask), or `aide.engine.Devices` (several GPUs). By default
            they run here, on all cores or the first GPU. The numbers are the same bits (with
            `Devices`, up to rounding unless `chunk_size` is given), and progress counts whole
            blocks.
        unchanged: State that an algorithm in plain Python, which JAX cannot trace, is the one that
            made the stored runs. Otherwise its runs are used again only if it has an attribute
            `aide_identity`, a text that changes whenever its results do.

    Returns:
        The draws, from which `aide.summarise` makes an estimate; `aide.engine.save` keeps them.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> draws = aide.draw(0, exact, fit, num_gold=50, num_target=50)
        >>> estimate = aide.estimate(0, exact, fit, num_gold=50, num_target=50)
        >>> aide.summarise(draws).value == estimate.value
        True
    """
    executor = as_executor(executor)
    plan = make_plan(
        key,
        gold,
        target,
        num_parts=num_parts_for(executor),
        keep_values=bool(keep_values),
        num_gold=num_gold,
        num_target=num_target,
        num_meta_gold=num_meta_gold,
        num_meta_target=num_meta_target,
        measure_looseness=measure_looseness,
        first_run=first_run,
        chunk_size=chunk_size,
    )
    file = None if checkpoint is None else Checkpoint(checkpoint)
    how = {"file": file, "executor": executor, "progress": progress, "unchanged": unchanged}
    return run_plan(plan, known_runs(plan, share, extend, file), **how).keeping(keep_values)


@keywords("aide.engine.draw_each")
def draw_each(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    *,
    num_gold: int | None = None,
    num_target: int | None = None,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    measure_looseness: bool = True,
    keep_values: bool | None = None,
    share: Draws | None = None,
    first_run: int = 0,
    checkpoint: Mapping[str, str | Path] | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
    executor: Executor | Client | None = None,
    unchanged: bool = False,
) -> Iterator[tuple[str, Draws]]:
    """Draws of every target with its name: to the bit those of `aide.draw` with the same key.

    The gold standard runs once, and the programs of all targets are compiled side by side. The
    draws of each target are yielded when they are complete, in the order given.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        targets: The algorithms to measure, by name.
        num_gold: Runs of the gold standard; see `aide.draw`, here and below.
        num_target: Runs of every target.
        num_meta_gold: Meta-inference runs of the gold standard per output.
        num_meta_target: Meta-inference runs of every target per output.
        measure_looseness: Draw one more meta-inference run per output.
        keep_values: Keep the outputs.
        share: Draws of the same gold standard with another target.
        first_run: Index of the first run.
        checkpoint: A file for every target, by the target's name.
        chunk_size: Runs computed at a time.
        progress: Show a progress bar.
        executor: Runs blocks of runs elsewhere.
        unchanged: State that an algorithm in plain Python is the one that made the stored runs.

    Returns:
        An iterator of pairs: the name of a target, and its draws.

    Example:
        >>> exact, fit = (aide.Tractable.of(Normal(m, 1.0)) for m in (0.0, 0.5))
        >>> found = dict(aide.engine.draw_each(0, exact, {"fit": fit}, num_gold=50, num_target=50))
        >>> list(found)
        ['fit']
    """
    sizes: Sizes = {
        "num_gold": num_gold,
        "num_target": num_target,
        "num_meta_gold": num_meta_gold,
        "num_meta_target": num_meta_target,
        "measure_looseness": measure_looseness,
        "first_run": first_run,
        "chunk_size": chunk_size,
    }
    how: RunOptions = {
        "keep_values": keep_values,
        "progress": progress,
        "executor": executor,
        "unchanged": unchanged,
    }
    check_targets(gold, targets, checkpoint)
    return _draw_each(key, gold, targets, sizes, how, share, checkpoint)


def _draw_each(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    sizes: Sizes,
    how: RunOptions,
    share: Draws | None,
    checkpoint: Mapping[str, str | Path] | None,
) -> Iterator[tuple[str, Draws]]:
    """Plan and compile for all targets, then run one after the other."""
    executor, keep_values = as_executor(how["executor"]), how["keep_values"]
    carry_out = partial(
        run_plan, executor=executor, progress=how["progress"], unchanged=how["unchanged"]
    )
    runners = {GOLD: runner_of(gold)}
    kept, num_parts = bool(keep_values), num_parts_for(executor)
    plans: dict[str, Plan] = {}
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(current_place().num_threads)
        stack.callback(pool.shutdown, cancel_futures=True)
        with one_call():
            for name, target in targets.items():
                plans[name] = plan = make_plan(
                    key,
                    gold,
                    target,
                    runners=runners,
                    num_parts=num_parts,
                    keep_values=kept,
                    **sizes,
                )
                for task in plan.compile_tasks() if executor is None else ():
                    pool.submit(task)  # the target that needs a program first waits for it
        shared: Runs | None = None
        for name, plan in plans.items():
            file = None if checkpoint is None else Checkpoint(checkpoint[name])
            known = known_runs(plan, share if shared is None else None, file=file)
            if shared is not None and known.runs[GOLD].num_runs == 0:
                known.runs[GOLD] = shared  # made in this call: nothing to check
            with one_call():
                draws = carry_out(plan, known, file=file)
            shared = draws.gold.without_cross() if shared is None else shared
            yield name, draws.keeping(keep_values)


def check_targets(gold: Any, targets: Mapping[str, Any], checkpoint: Any) -> None:
    """Raise if an object is no algorithm, or a target has no checkpoint."""
    if not targets:
        raise ValueError("targets must hold at least one algorithm, got an empty mapping.")
    check_algorithm("gold", gold)
    for name, target in targets.items():
        check_algorithm(f"targets[{name!r}]", target)
    if checkpoint is not None and (
        not isinstance(checkpoint, Mapping) or set(checkpoint) != set(targets)
    ):
        raise ValueError(
            f"checkpoint must name a file for each of {sorted(targets)}, as a mapping: the runs of "
            f"two targets cannot be in one file. Got {checkpoint!r}."
        )
