"""Runs that need not be repeated, and whether they are of these very algorithms.

Stored runs belong to the traced programs of both algorithms and to the arrays they got
(`programs.identity`). Of an algorithm in plain Python nobody can tell, unless it states an
`aide_identity`, or the caller says `unchanged=True`. Some stored runs are repeated in any case.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from aide._core.types import GOLD, TARGET, Role
from aide.engine.draws import Draws
from aide.engine.plan import Plan, Request
from aide.engine.programs.identity import Identity
from aide.engine.programs.map_runs import ignore
from aide.engine.runners.runner import MetaRuns
from aide.engine.runs import Kept, Side, nothing
from aide.engine.storage.checkpoint import Checkpoint
from aide.engine.storage.dataset import check_no_nan

FRESH = "Draw afresh, without share, extend or the old checkpoint."
NUM_REPEATED = 3
"""Stored runs that are repeated: the first, and others chosen at random at every call."""


class Source(NamedTuple):
    """Where stored runs come from.

    Attributes:
        argument: The argument of the call that holds them, in words.
        header: The draws, or their header.
        roles: The algorithms whose runs are used.
    """

    argument: str
    header: Draws
    roles: tuple[Role, ...]


def known_runs(
    request: Request, share: Any, extend: Any, file: Checkpoint | None = None
) -> tuple[dict[Role, Kept], list[Source]]:
    """What `share`, `extend` or a checkpoint hold for this key; whose runs they are is open yet."""
    if share is not None and extend is not None:
        raise ValueError("give share or extend, not both: extend already contains the gold runs.")
    known, sources = {GOLD: nothing(), TARGET: nothing()}, list[Source]()
    if extend is not None:
        draws = _as_draws("extend", extend)
        sources.append(Source("extend", draws, (GOLD, TARGET)))
        known = {role: _as_kept("extend", draws.side(role)) for role in Role}
    if share is not None:
        draws = _as_draws("share", share)
        sources.append(Source("share", draws, (GOLD,)))
        known[GOLD] = _as_kept("share", draws.gold).without_cross()
    if file is not None and file.header is not None:
        sources = [*sources, Source(f"the checkpoint {file.path}", file.header, (GOLD, TARGET))]
        stored = dict(zip(Role, file.stored, strict=True))
        known = {role: stored[role] if stored[role].num_runs else known[role] for role in Role}
    for source in sources:
        _check_key(request, source)
    return known, sources


def check_sources(plan: Plan, sources: list[Source], unchanged: bool) -> None:
    """Raise unless all stored runs are of the algorithms as they are traced now."""
    for source in sources:
        for role in source.roles:
            before, now = source.header.side(role).identity, plan.identities[role]
            _check_identity(source.argument, role, before, now, unchanged)


def check_repeated(plan: Plan, known: Mapping[Role, Kept]) -> None:
    """Repeat some of the known runs: outputs and scores must be those that are stored."""
    for role, kept in known.items():
        if kept.num_runs:
            _check_runs(plan, role, kept)


def _check_runs(plan: Plan, role: Role, kept: Kept) -> None:
    key, rows = plan.request.key, _chosen(kept.num_runs)
    runs = plan.request.first_run + rows
    values, log_xi = plan.runners[role].simulate(
        key, role, runs, plan.simulate_chunks[role], ignore
    )
    again = [(role, "log_xi", kept.own[rows, 0], log_xi)]
    for old, new in zip(jax.tree.leaves(kept.first), jax.tree.leaves(values), strict=False):
        again.append((role, "output", old[None], np.asarray(new)[:1]))
    if kept.num_values:
        has_value = rows < kept.num_values
        for old, new in zip(jax.tree.leaves(kept.values), jax.tree.leaves(values), strict=False):
            again.append((role, "output", old[rows[has_value]], np.asarray(new)[has_value]))
    values = jax.tree.map(lambda a, like: np.asarray(a, like.dtype), values, plan.output)
    for by, table, number, column in (
        (role, kept.own, kept.num_own, 1),
        (role.other, kept.cross, kept.num_cross, 0),
    ):
        has_score = number[rows] > column
        if has_score.any():
            some = jax.tree.map(lambda a, has=has_score: a[has], values)
            metas = np.array([column])
            asked = MetaRuns(role, some, runs[has_score], metas, own=by is role)
            chunk = plan.regenerate_chunks[by]
            scores = plan.runners[by].regenerate(key, asked, chunk, ignore)
            again.append((by, "log_xi of regenerate", table[rows[has_score], column], scores[:, 0]))
    for by, what, stored, found in again:
        if not np.allclose(stored, found, rtol=1e-6, atol=1e-6):
            raise ValueError(
                f"the stored runs were not made by this {by.word} algorithm: for runs "
                f"{runs.tolist()} of the {role.word} algorithm {what} is {_short(found)}, the "
                f"stored one {_short(stored)}. {FRESH}"
            )


def _chosen(num_runs: int) -> np.ndarray:
    """The first run and some others, in order."""
    others = np.random.default_rng().permutation(np.arange(1, num_runs))[: NUM_REPEATED - 1]
    return np.sort(np.concatenate([[0], others])).astype(np.int64)


def _check_key(request: Request, source: Source) -> None:
    argument, draws = source.argument, source.header
    if draws.key_data != request.key_data or draws.first_run != request.first_run:
        raise ValueError(
            f"{argument} holds runs of another key or first_run (key {draws.key_data}, run "
            f"{draws.first_run}), but this call has key {request.key_data}, run "
            f"{request.first_run}. Use the same ones, or concatenate the two results instead."
        )


def _check_identity(
    argument: str, role: Role, before: Identity | None, now: Identity, unchanged: bool
) -> None:
    where = f"{argument} holds runs that were not made by this {role.word} algorithm"
    if before is None:
        raise ValueError(f"{where}, or by nobody knows which: they carry no identity. {FRESH}")
    if before.unseen or now.unseen:
        is_same_object = before.digest == now.digest and before.call == now.call != 0
        if is_same_object or (unchanged and before.kind == now.kind):
            return
        parts = ", ".join(dict.fromkeys((*before.unseen, *now.unseen)))
        raise ValueError(
            f"{argument} cannot be used with this {role.word} algorithm: JAX does not trace "
            f"{parts}, so that nobody can tell whether it changed since. {FRESH} Or say "
            "unchanged=True (on the command line --unchanged) if nothing did, or give the object "
            "an attribute aide_identity, a text that changes whenever its results do."
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
    return draws


def _as_kept(argument: str, side: Side) -> Kept:
    kept = Kept.of(side)
    check_no_nan(argument, kept)
    return kept


def _short(number: Any) -> str:
    return np.array2string(np.asarray(number), precision=6, threshold=4)
