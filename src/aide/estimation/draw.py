"""The draw stage: run both algorithms, score every output with both."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from aide._random import GOLD, TARGET, as_key
from aide.estimation.block import draw_block
from aide.estimation.draws import Draws, Side
from aide.estimation.engine import program_session
from aide.estimation.plan import Plan
from aide.estimation.progress import Progress
from aide.estimation.storage import check_savable, load_draws, save_draws

SAVE_EVERY = 30.0
"""Seconds between two writes of a checkpoint; the end of a run, good or bad, writes one too."""


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
            runs are used again.
        extend: Draws of the same pair and key with fewer runs or meta-runs: only what is missing
            is run.
        first_run: Index of the first run, to spread runs over machines: give each its own range,
            then `concatenate`.
        checkpoint: A file that keeps finished blocks (netCDF); calling again continues there.
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
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        share, extend = None, load_draws(path)
    known = plan.known(share, extend)
    sides: list[list[Side]] = [[], []]

    def finished() -> Draws:
        gold_side, target_side = (plan.collect(role, sides[role], known[role]) for role in range(2))
        draws = replace(plan.header(), gold=gold_side, target=target_side)
        return draws if keep_values else draws.without_values()

    last_saved = time.monotonic()

    names = [f"{role}  {name}" for role, name in zip(("gold  ", "target"), plan.names, strict=True)]
    bars = Progress(names, plan.work(known), progress)
    with jax.enable_x64(True), program_session(), bars as bar:
        plan.prepare(known)
        if path is not None:  # an unwritable file, or outputs that cannot be saved, show now
            check_savable(plan.output if keep_values else None)
            save_draws(finished(), path)
        try:
            for role in (GOLD, TARGET):
                for begin, end in plan.blocks(role, known[role]):
                    reuse = _slice(known[role], begin, end)
                    sides[role].append(
                        draw_block(plan, role, begin, end, reuse, bar.reporter(role))
                    )
                    if path is not None and time.monotonic() - last_saved > SAVE_EVERY:
                        save_draws(finished(), path)
                        last_saved = time.monotonic()
        finally:
            if path is not None:
                save_draws(finished(), path)
    return finished()


def _slice(side: Side | None, begin: int, end: int) -> Side | None:
    return None if side is None or begin >= side.num_runs else side.take(slice(begin, end))
