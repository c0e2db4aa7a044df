"""A set of draws prepared for a comparison: named columns, chains, and effective sizes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from aide._core.chains import mean_variance, split_rhat
from aide._core.types import Value
from aide.algorithms.draw_arrays import (
    as_chains,
    check_axes,
    column_names,
    columns_of,
    flat_draws,
    in_order,
)
from aide.algorithms.reference import ReferenceDraws
from aide.estimation.errors.errors import Errors, check_functions, errors_from
from aide.estimation.errors.overlap import apart_in
from aide.estimation.errors.variables import variables_in
from aide.estimation.interval import check_level
from aide.estimation.sandwich.sandwich import MIN_RUNS
from aide.estimation.terms import Sequences

PER_EFFECTIVE = 2
"""Draws of a slow chain that are kept per effective draw; an AR(1) chain loses 7% by that."""


@dataclass(frozen=True)
class DrawSet:
    """Draws of one distribution.

    Attributes:
        name: The name of the set.
        values: The draws that are used, chain after chain, with one leading axis.
        columns: All numbers of each draw: shape (draw, coordinate).
        coordinates: A name for every column.
        sequences: Rows of each chain, in order.
        num_draws: Number of draws that were given.
        effective: Effective sample size, the smallest of all coordinates.
        rhat: Largest split R-hat of all coordinates.
        order: The order in which the draws were given, if it had to be recognised.
    """

    name: str
    values: Value
    columns: np.ndarray
    coordinates: tuple[str, ...]
    sequences: Sequences
    num_draws: int
    effective: float
    rhat: float
    order: str = ""

    @property
    def words(self) -> str:
        """The number of draws and their effective size, in words."""
        num = len(self.sequences)
        chains = f" in {num} chains" if num > 1 else ""
        return f"{self.num_draws:,} draws of {self.name}{chains}, worth {self.effective:.0f}"


def make_draw_set(name: str, draws: Value | ReferenceDraws, has_chains: bool | None) -> DrawSet:
    """Check draws, compute their effective size, and thin slow chains."""
    if isinstance(draws, ReferenceDraws):
        draws, has_chains = draws.draws, True
    if has_chains is None:
        has_chains = len(jax.tree.leaves(draws)) == 1 and np.ndim(jax.tree.leaves(draws)[0]) == 3
    try:
        arranged, _ = as_chains(draws, has_chains)
        if has_chains:
            check_axes(arranged)
        arranged, order = in_order(arranged)
        shape = jax.tree.leaves(arranged)[0].shape[:2]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    size = shape[0] * shape[1]
    if size < MIN_RUNS:
        hint = "" if has_chains else " If the first axis numbers chains, say has_chains=True."
        raise ValueError(f"{name} must hold at least {MIN_RUNS} draws, got {size}.{hint}")
    columns = columns_of(arranged)
    moving = [column for column in np.moveaxis(columns, 2, 0) if np.ptp(column) > 0]
    effective = min((mean_variance(list(c)).effective for c in moving), default=float(size))
    effective = min(effective, float(size))
    known = [rhat for c in moving if not np.isnan(rhat := split_rhat(list(c)))]
    factor = max(min(int(size / (PER_EFFECTIVE * effective)), size // (2 * MIN_RUNS)), 1)
    thinned = jax.tree.map(lambda a: a[:, factor - 1 :: factor], arranged)
    length = jax.tree.leaves(thinned)[0].shape[1]
    return DrawSet(
        name,
        flat_draws(thinned),
        columns_of(thinned).reshape(shape[0] * length, -1),
        tuple(column_names(arranged)),
        tuple(np.arange(length) + chain * length for chain in range(shape[0])),
        size,
        effective,
        max(known, default=np.nan),
        order,
    )


def check_comparable(a: DrawSet, b: DrawSet) -> None:
    """Raise unless both have the same variables, of the same shapes."""
    if jax.tree.structure(a.values) != jax.tree.structure(b.values):
        names = [sorted({c.partition("[")[0] for c in one.coordinates}) for one in (a, b)]
        raise ValueError(
            f"both sets of draws must have the same variables, got {names[0]} in {a.name} and "
            f"{names[1]} in {b.name}. Leave out what only one has."
        )
    if a.coordinates != b.coordinates:
        raise ValueError(
            f"both sets of draws must have the same coordinates, got {len(a.coordinates)} in "
            f"{a.name} and {len(b.coordinates)} in {b.name}: {_first_difference(a, b)}. "
            "has_chains says whether the first axis numbers chains."
        )


def _first_difference(a: DrawSet, b: DrawSet) -> str:
    only = [sorted(set(x.coordinates) - set(y.coordinates)) for x, y in ((a, b), (b, a))]
    return f"only one has {(only[0] or only[1])[0]}"


def errors_between(
    gold: DrawSet,
    target: DrawSet,
    level: float,
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Errors:
    """Errors of results from `target`, with `gold` as the gold standard, by draws alone.

    Chains are used in their order, so that every single limit allows for autocorrelation.
    """
    check_level(level)
    check_functions(functions)
    nums = len(gold.columns), len(target.columns)
    share = gold.effective / (gold.effective + target.effective)
    overlap = apart_in(nums, (gold.sequences, target.sequences), share)
    return errors_from(
        (gold.name, target.name),
        overlap,
        variables_in([gold.values, target.values], nums, functions),
        level,
        min(gold.effective, target.effective),
    )
