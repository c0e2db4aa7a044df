"""Runs that need not be repeated, and whether they are of these very algorithms."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from aide._core.identity import Identity
from aide._core.roles import GOLD, TARGET, Role
from aide.draws.draws import Draws
from aide.draws.plan import Plan
from aide.draws.request import Request
from aide.draws.sides import Side
from aide.draws.storage.dataset import check_no_nan
from aide.draws.storage.kept import Kept, nothing
from aide.running.map_runs import ignore
from aide.running.runner import MetaRuns

FRESH = "Draw afresh, without share, extend or the old checkpoint."


def known_runs(request: Request, share: Any, extend: Any) -> dict[Role, Kept]:
    """What `share` or `extend` hold, checked to belong to this request."""
    if share is not None and extend is not None:
        raise ValueError("give share or extend, not both: extend already contains the gold runs.")
    if extend is not None:
        draws = _as_draws("extend", extend)
        check_same(request, "extend", draws, (GOLD, TARGET))
        return {GOLD: _as_kept("extend", draws.gold), TARGET: _as_kept("extend", draws.target)}
    if share is not None:
        draws = _as_draws("share", share)
        check_same(request, "share", draws, (GOLD,))
        return {GOLD: _as_kept("share", draws.gold).without_cross(), TARGET: nothing()}
    return {GOLD: nothing(), TARGET: nothing()}


def check_same(request: Request, argument: str, draws: Draws, roles: tuple[Role, ...]) -> None:
    """Raise unless stored runs are of this key and of these very algorithms."""
    if draws.key_data != request.key_data or draws.first_run != request.first_run:
        raise ValueError(
            f"{argument} holds runs of another key or first_run (key {draws.key_data}, run "
            f"{draws.first_run}), but this call has key {request.key_data}, run "
            f"{request.first_run}. Use the same ones, or concatenate the two results instead."
        )
    for role in roles:
        _check_identity(argument, role, draws.side(role).identity, request.identities[role])


def check_first_runs(plan: Plan, known: Mapping[Role, Kept]) -> None:
    """Repeat the first of the known runs: they must be of these very algorithms."""
    for role, kept in known.items():
        if kept.num_runs:
            _check_first_run(plan, role, kept)


def _check_first_run(plan: Plan, role: Role, kept: Kept) -> None:
    """Output, own and cross scores must be those that are stored."""
    key, runs = plan.request.key, np.array([plan.request.first_run])
    first = plan.first_runs[role]
    if first is None:
        chunk = plan.simulate_chunks[role]
        values, log_xi = plan.runners[role].simulate(key, role, runs, chunk, ignore)
    else:
        values, log_xi = jax.tree.map(lambda a: np.asarray(a)[None], first.value), [first.log_xi]
    again = [("log_xi", kept.own[0, 0], log_xi[0])]
    leaves = (jax.tree.leaves(kept.first), jax.tree.leaves(values))
    again += [("output", old, new[0]) for old, new in zip(*leaves, strict=False)]
    values = jax.tree.map(lambda a, like: np.asarray(a, like.dtype), values, plan.output)
    for by, table, number, column in (
        (role, kept.own, kept.num_own[0], 1),
        (role.other, kept.cross, kept.num_cross[0], 0),
    ):
        if number > column:
            asked = MetaRuns(role, values, runs, np.array([column]), own=by is role)
            chunk = plan.regenerate_chunks[by]
            scores = plan.runners[by].regenerate(key, asked, chunk, ignore)
            words = f"log_xi of regenerate of the {by.word} algorithm"
            again.append((words, table[0, column], scores[0, 0]))
    for what, stored, found in again:
        if not np.allclose(stored, found, rtol=1e-6, atol=1e-6):
            raise ValueError(
                f"the stored runs were not made by this {role.word} algorithm: in its first run "
                f"{what} is {_short(found)}, the stored one {_short(stored)}. {FRESH}"
            )


def _check_identity(argument: str, role: Role, before: Identity | None, now: Identity) -> None:
    where = f"{argument} holds runs that were not made by this {role.word} algorithm"
    if before is None:
        raise ValueError(f"{where}, or by nobody knows which: they carry no identity. {FRESH}")
    if before.unseen or now.unseen:
        parts = ", ".join(dict.fromkeys((*before.unseen, *now.unseen)))
        raise ValueError(
            f"{argument} cannot be used with this {role.word} algorithm: nobody can tell whether "
            f"{parts} is what it was. {FRESH} Or give the object an attribute aide_identity, a "
            "text that changes whenever its results do."
        )
    changed = before.differences(now)
    if changed:
        raise ValueError(f"{where}: {changed} changed since. {FRESH}")


def _as_draws(argument: str, given: Any) -> Draws:
    draws = getattr(given, "draws", given)
    if not isinstance(draws, Draws):
        raise TypeError(
            f"{argument} must be draws or an estimate (of aide.draw, aide.estimate or "
            f"aide.draws.load), got {given!r}."
        )
    return draws


def _as_kept(argument: str, side: Side) -> Kept:
    kept = Kept.of(side)
    check_no_nan(argument, kept)
    return kept


def _short(number: Any) -> str:
    return np.array2string(np.asarray(number), precision=6, threshold=4)
