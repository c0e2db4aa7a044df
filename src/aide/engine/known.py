"""Runs that need not be repeated, and the check that they are of the same algorithms.

Stored runs belong to the traced programs of both algorithms and to their arrays
(`programs.identity`). An algorithm in plain Python cannot be compared, unless it has an
`aide_identity`, or the caller states `unchanged=True`. Some stored runs are repeated in any case.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.engine.dataset import check_no_nan
from aide.engine.draws import NO_RUNS, Draws, Runs
from aide.engine.files import Checkpoint
from aide.engine.plan import Plan
from aide.engine.programs.identity import Identity
from aide.engine.programs.prepared import ignore
from aide.engine.runners.runner import MetaRuns

FRESH = "Draw afresh, without share, extend or the old checkpoint."
NUM_REPEATED = 3
"""Number of stored runs that are repeated: the first, and others chosen at random in every call."""


class Source(NamedTuple):
    """The origin of stored runs.

    Attributes:
        argument: The argument of the call that holds them, in words.
        header: The draws, or their header.
        roles: The algorithms whose runs are used.
    """

    argument: str
    header: Draws
    roles: tuple[Role, ...]


class Known(NamedTuple):
    """Runs of both algorithms that need not be made.

    Attributes:
        runs: Known runs of either algorithm.
        sources: Origins of stored runs; empty for runs of the same call.
    """

    runs: dict[Role, Runs]
    sources: tuple[Source, ...] = ()


def known_runs(
    plan: Plan, share: Any = None, extend: Any = None, file: Checkpoint | None = None
) -> Known:
    """The runs in `share`, `extend` or a checkpoint for this key; algorithms are checked later."""
    if share is not None and extend is not None:
        raise ValueError("give share or extend, not both: extend already contains the gold runs.")
    runs: dict[Role, Runs] = {GOLD: NO_RUNS, TARGET: NO_RUNS}
    sources: list[Source] = []
    if extend is not None:
        draws = _as_draws("extend", extend)
        sources.append(Source("extend", draws, (GOLD, TARGET)))
        runs |= {role: draws.side(role) for role in Role}
    if share is not None:
        draws = _as_draws("share", share)
        sources.append(Source("share", draws, (GOLD,)))
        runs[GOLD] = draws.gold.without_cross()
    if file is not None and file.header is not None:
        sources.append(Source(f"the checkpoint {file.path}", file.header, (GOLD, TARGET)))
        stored = dict(zip(Role, file.stored, strict=True))
        runs |= {role: found for role, found in stored.items() if found.num_runs}
    for source in sources:
        _check_key(plan, source)
    return Known(runs, tuple(sources))


def check_sources(plan: Plan, sources: tuple[Source, ...], unchanged: bool) -> None:
    """Raise unless all stored runs are of the algorithms as they are traced in this call."""
    for source in sources:
        for role in source.roles:
            before, now = source.header.side(role).identity, plan.header.side(role).identity
            _check_identity(source.argument, role, before, now, unchanged)


def check_repeated(plan: Plan, known: Known) -> None:
    """Repeat some of the stored runs, and raise if outputs or scores differ."""
    for role, runs in known.runs.items():
        if known.sources and runs.num_runs:
            _check_runs(plan, role, runs)


def _check_runs(plan: Plan, role: Role, known: Runs) -> None:
    """Repeat some runs of one algorithm, and compare."""
    rows = _chosen(known.num_runs)
    numbers = plan.first_run + rows
    values, log_xi = plan.tasks[role].runner.simulate(
        plan.key, role, numbers, plan.tasks[role].simulate, ignore
    )
    again = [(role, "log_xi", known.own[rows, 0], log_xi)]
    for old, new in zip(jax.tree.leaves(known.first), jax.tree.leaves(values), strict=False):
        again.append((role, "output", old[None], np.asarray(new)[:1]))
    if known.num_values:
        has_value = rows < known.num_values
        for old, new in zip(jax.tree.leaves(known.values), jax.tree.leaves(values), strict=False):
            again.append((role, "output", old[rows[has_value]], np.asarray(new)[has_value]))
    values = jax.tree.map(lambda a, like: np.asarray(a, like.dtype), values, plan.output)
    for by, table, num, column in (
        (role, known.own, known.num_own, 1),
        (role.other, known.cross, known.num_cross, 0),
    ):
        has_score = num[rows] > column
        if has_score.any():
            some = jax.tree.map(lambda a, has=has_score: a[has], values)
            metas = np.array([column])
            asked = MetaRuns(role, some, numbers[has_score], metas, own=by is role)
            task = plan.tasks[by]
            scores = task.runner.regenerate(plan.key, asked, task.regenerate, ignore)
            again.append((by, "log_xi of regenerate", table[rows[has_score], column], scores[:, 0]))
    for by, what, stored, found in again:
        if not np.allclose(stored, found, rtol=1e-6, atol=1e-6):
            raise ValueError(
                f"the stored runs were not made by this {by.word} algorithm: for runs "
                f"{numbers.tolist()} of the {role.word} algorithm {what} is {_short(found)}, the "
                f"stored one {_short(stored)}. {FRESH}"
            )


def _chosen(num_runs: int) -> np.ndarray:
    """The first run and some others, in order."""
    others = np.random.default_rng().permutation(np.arange(1, num_runs))[: NUM_REPEATED - 1]
    return np.sort(np.concatenate([[0], others])).astype(np.int64)


def _check_key(plan: Plan, source: Source) -> None:
    draws, header = source.header, plan.header
    if draws.key_data != header.key_data or draws.first_run != header.first_run:
        raise ValueError(
            f"{source.argument} holds runs of another key or first_run (key {draws.key_data}, run "
            f"{draws.first_run}), but this call has key {header.key_data}, run "
            f"{header.first_run}. Use the same ones, or concatenate the two results instead."
        )


def _check_identity(
    argument: str, role: Role, before: Identity | None, now: Identity | None, unchanged: bool
) -> None:
    where = f"{argument} holds runs that were not made by this {role.word} algorithm"
    if before is None or now is None:
        raise ValueError(f"{where}, or by an unknown one: they carry no identity. {FRESH}")
    if before.unseen or now.unseen:
        is_same_object = before.digest == now.digest and before.call == now.call != 0
        if is_same_object or (unchanged and before.kind == now.kind):
            return
        parts = ", ".join(dict.fromkeys((*before.unseen, *now.unseen)))
        raise ValueError(
            f"{argument} cannot be used with this {role.word} algorithm: JAX does not trace "
            f"{parts}, so that a change cannot be seen. {FRESH} Or say unchanged=True (on the "
            "command line --unchanged) if nothing changed, or give the object an attribute "
            "aide_identity, a text that changes whenever its results do."
        )
    changed = before.differences(now)
    if changed:
        raise ValueError(f"{where}: {changed} changed since. {FRESH}")


def _as_draws(argument: str, given: Any) -> Draws:
    draws = getattr(given, "draws", given)
    if not isinstance(draws, Draws):
        raise TypeError(
            f"{argument} must be draws or an estimate (of aide.draw, aide.estimate or "
            f"aide.engine.load), got {given!r}."
        )
    for side in draws.sides:
        for table in (side.own, side.cross):
            check_no_nan(argument, table, np.full(len(table), table.shape[1]))
    return draws


def _short(number: Any) -> str:
    return np.array2string(np.asarray(number), precision=6, threshold=4)
