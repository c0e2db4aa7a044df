"""Several targets against one gold standard, whose runs they share."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from aide._core.algorithm import InferenceAlgorithm
from aide._core.roles import GOLD, Role
from aide._core.types import Key
from aide.draws.draws import Draws
from aide.draws.known import Source, check_repeated, check_sources, known_runs
from aide.draws.outputs import check_algorithm
from aide.draws.plan import Plan, make_plan
from aide.draws.request import make_request
from aide.draws.spread import as_executor, num_parts_for
from aide.draws.stage import progress_of, run_plan
from aide.draws.storage.checkpoint import Checkpoint
from aide.draws.storage.kept import Kept
from aide.running.call import one_call
from aide.running.choose import runner_of
from aide.running.device import current_place


def draw_many(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    **settings: Any,
) -> dict[str, Draws]:
    """Draws of every target, by name: to the bit those of `aide.draw` with the same key.

    The gold standard runs once, and the programs of all targets are compiled side by side.

    Args:
        key: A JAX key, or an integer seed.
        gold: The gold standard.
        targets: The algorithms to measure, by name.
        **settings: Those of `aide.draw`, for every target; `checkpoint` is a mapping from names to
            files, and there is no `extend`.
    """
    return dict(draw_each(key, gold, targets, **settings))


def draw_each(
    key: Key | int,
    gold: InferenceAlgorithm,
    targets: Mapping[str, InferenceAlgorithm],
    *,
    share: Draws | None = None,
    checkpoint: Mapping[str, str | Path] | None = None,
    keep_values: bool | None = None,
    progress: bool | None = None,
    executor: Executor | Any = None,
    unchanged: bool = False,
    **settings: Any,
) -> Iterator[tuple[str, Draws]]:
    """`draw_many`, target by target: each as soon as its runs are there, in the order given."""
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
    executor = as_executor(executor)
    runner = runner_of(gold)
    plans: dict[str, Plan] = {}
    compiling: dict[str, list[Future[None]]] = {}
    with ExitStack() as stack:
        pool = ThreadPoolExecutor(current_place().num_threads)
        stack.callback(pool.shutdown, cancel_futures=True)
        with one_call():
            for name, target in targets.items():
                request = make_request(key, gold, target, keep_values=bool(keep_values), **settings)
                plans[name] = make_plan(request, {GOLD: runner}, num_parts_for(executor))
                tasks = [] if executor is not None else plans[name].compile_tasks()
                compiling[name] = [pool.submit(task) for task in tasks]
        shared: Kept | None = None
        for name, plan in plans.items():
            file = None if checkpoint is None else Checkpoint(checkpoint[name])
            known, sources = _known(plan, file, share, shared)
            check_sources(plan, sources, unchanged)
            with progress_of(plan.request, known, progress) as bar:
                for future in compiling.pop(name):
                    future.result()
                if sources:  # runs made a moment ago need no check
                    check_repeated(plan, known)
                draws = run_plan(plan, known, file, executor, bar)
            shared = Kept.of(draws.gold).without_cross() if shared is None else shared
            yield name, draws.keeping(keep_values)


def _known(
    plan: Plan, file: Checkpoint | None, share: Draws | None, shared: Kept | None
) -> tuple[dict[Role, Kept], list[Source]]:
    """Runs that are there already, and where they come from.

    Those of an earlier target's gold standard (`shared`) were made in this very call.
    """
    known, sources = known_runs(plan.request, share if shared is None else None, None, file)
    if shared is not None and known[GOLD].num_runs == 0:
        known[GOLD] = shared
    return known, sources
