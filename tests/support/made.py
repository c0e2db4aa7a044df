"""Draws made by hand: tables of scores instead of runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import aide
from aide._core.roles import Role
from aide.draws.draws import Draws
from aide.draws.sides import Runs, Side


def made_draws(
    gold: Sequence[Any],
    target: Sequence[Any],
    metas: tuple[int, int] = (1, 1),
    log_z: tuple[float | None, float | None] = (None, None),
    names: tuple[str, str] = ("gold", "target"),
) -> Draws:
    """Draws whose sides are given by own scores, cross scores and, perhaps, outputs."""
    first, second = (
        Side(*tables, role=role, num_meta=metas[role], log_z=log_z[role], name=names[role])
        for role, tables in zip(Role, (gold, target), strict=True)
    )
    return Draws(first, second)


def with_log_z(draws: Draws, log_z: tuple[float | None, float | None]) -> Draws:
    """The same runs under other claims."""
    for side in draws.sides:
        draws = draws.with_side(replace(side, log_z=log_z[side.role]))
    return draws


def with_tables(draws: Draws, role: Role, own: np.ndarray, cross: np.ndarray) -> Draws:
    """The same algorithms with other scores on one side, without outputs."""
    return draws.with_side(draws.side(role).with_runs(Runs(own, cross)))


def swapped(draws: Draws) -> Draws:
    """Gold standard and target change places."""
    gold, target = (replace(side, role=side.role.other) for side in draws.sides[::-1])
    return replace(draws, gold=gold, target=target)


def estimate_with(
    gold_terms: Any,
    target_terms: Any,
    log_z: tuple[float | None, float | None] = (0.0, 0.0),
    names: tuple[str, str] = ("gold", "target"),
) -> aide.estimation.Estimate:
    """An estimate with the given terms: own scores are 0."""
    gold, target = (
        (np.zeros((len(terms), 2)), -np.asarray(terms, float)[:, None])
        for terms in (gold_terms, target_terms)
    )
    return aide.estimation.Estimate(made_draws(gold, target, log_z=log_z, names=names))
