"""The draw stage: run both algorithms, score every output with both."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax

from aide._core.random import as_key
from aide._core.roles import GOLD, TARGET
from aide.draws.block import draw_block
from aide.draws.draws import Draws
from aide.draws.plan import ROLES, Plan
from aide.draws.sides import Runs, join
from aide.draws.storage.checkpoint import Checkpoint
from aide.draws.storage.dataset import check_savable
from aide.running.programs import program_session
from aide.running.progress import Progress


def draw(
    key: Any,
    gold: Any,
    target: Any,
    *,
    num_gold: int = 500,
    num_target: int = 500,
    num_meta_gold: int = 1,
    num_meta_target: int = 1,
    looseness: bool = True,
    keep_values: bool = False,
    share: Draws | None = None,
    extend: Draws | None = None,
    first_run: int = 0,
    checkpoint: str | Path | None = None,
    chunk_size: int | None = None,
    progress: bool | None = None,
) -> Draws:
    r"""Run `gold` and `target`; score each output with both (Algorithm 2 up to its last line).

    Every $\log\xi$ is a function of (key, role, run, meta index) and its algorithm alone.

    Args:
        key: A JAX key.
        gold: The gold standard, an `InferenceAlgorithm`.
        target: The algorithm being measured.
        num_gold: Runs of the gold standard, N_gold.
        num_target: Runs of the target, N_target.
        num_meta_gold: Meta-inference runs of the gold standard per output, M_gold.
        num_meta_target: Meta-inference runs of the target per output, M_target.
        looseness: Draw one more meta-inference run per output, which measures how loose the bound
            is.
        keep_values: Keep the outputs (needed for probes, evidence estimates and sharing without
            running the gold standard again).
        share: Draws of the same gold standard with another target and the same key: their gold
            runs are used again. A gold standard that changed since is an error.
        extend: Draws of the same pair and key with fewer runs or meta-runs: only what is missing
            is run.
        first_run: Index of the first run, to spread runs over machines: give each its own range,
            then `concatenate`.
        checkpoint: A file (netCDF, or a folder `.zarr`) that keeps finished blocks and only ever
            grows; calling again continues there. Anything changed about the algorithms is refused.
        chunk_size: Runs computed at a time; chosen to fit the cache. Never changes the numbers
            beyond rounding.
        progress: Show a progress bar; by default if the run takes long and a person watches.
    """
    plan = Plan(
        key=as_key(key),
        algorithms=(gold, target),
        counts=(num_gold, num_target),
        metas=(num_meta_gold, num_meta_target),
        looseness=looseness,
        first_run=first_run,
        chunk_size=chunk_size,
        keep_values=keep_values,
    )
    file = None if checkpoint is None else Checkpoint(checkpoint)
    known = plan.known(share, extend)
    if file is not None and file.header is not None:
        plan.check_same(f"the checkpoint {file.path}", file.header, ROLES)
        known = file.stored
    sides: tuple[list[Runs], list[Runs]] = ([], [])

    def save() -> None:
        if file is not None:
            gold_runs, target_runs = (
                known[role].with_runs(sides[role], keep_values) for role in (GOLD, TARGET)
            )
            file.save(plan.header(), (gold_runs, target_runs))

    names = [f"{role}  {name}" for role, name in zip(("gold  ", "target"), plan.names, strict=True)]
    bars = Progress(names, plan.work(known), progress)
    with jax.enable_x64(True), program_session(), bars as bar, ExitStack() as stack:
        plan.prepare(known)
        if file is not None:  # an unwritable file, or outputs that cannot be saved, show now
            check_savable(plan.output if keep_values else None)
            save()
            stack.enter_context(file.saved_at_the_end(save))
        for role in (GOLD, TARGET):
            for begin, end in plan.blocks(role, known[role]):
                reuse = known[role].side(begin, end)
                sides[role].append(draw_block(plan, role, begin, end, reuse, bar.reporter(role)))
                if file is not None and file.is_due:
                    save()
    draws = plan.header().with_runs(join(sides[GOLD]), join(sides[TARGET]))
    return draws if keep_values else draws.without_values()
