"""Estimates of every quantity of every variable, many variables at once, before their limits."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantiles import (
    CONTENT,
    QUANTILES,
    interval_content,
    ranked_by,
    share_below,
)
from aide.estimation.errors.quantities import (
    Moments,
    mean_error,
    moments_of,
    probability_error,
    scaled_by,
    sd_log_ratio,
)
from aide.estimation.errors.statistics import Estimated, estimate_statistics
from aide.estimation.errors.variables import OutputVariable

MEAN = "mean"
"""Name of the error of the mean, as in records."""
SD = "sd"
"""Name of the ratio of sds, as in records."""
INTERVAL = "90% interval"
"""Name of the content of the target's central interval, as in records."""
PROBABILITY = "probability"
"""Name of the error of a probability, as in records."""
BELOW = tuple(f"below {100 * level:g}%" for level in QUANTILES)
"""Names of the shares below quantiles of the gold standard, as in records."""
AT_ONCE = 2**14
"""Number of values (variables times runs) that are treated at once, for the processor's cache."""


class Lines(NamedTuple):
    """Estimates by variable and quantity: one entry per line of the table.

    Attributes:
        variables: The name of the variable.
        quantities: See `ErrorOf`.
        found: The estimates; for `sd` the logarithm of the ratio.
        gold: The quantity under the gold standard.
        scale: The unit of the error, in units of the variable.
    """

    variables: tuple[str, ...]
    quantities: tuple[str, ...]
    found: Estimated
    gold: np.ndarray
    scale: np.ndarray


def find_lines(overlap: Overlap, variables: Sequence[OutputVariable]) -> Lines:
    """The estimates of all quantities of all variables, which are finite and not constant."""
    size = max(AT_ONCE // overlap.log_ratio.size, 1)
    parts = [_lines_of(overlap, names, x, *kind) for kind, names, x in _alike(variables, size)]
    if not parts:
        return _lines_of(overlap, [], np.zeros((0, overlap.log_ratio.size)), False, False)
    fields = zip(*(one.found for one in parts), strict=True)
    return Lines(
        tuple(name for one in parts for name in one.variables),
        tuple(name for one in parts for name in one.quantities),
        Estimated(*map(np.concatenate, fields)),
        np.concatenate([one.gold for one in parts]),
        np.concatenate([one.scale for one in parts]),
    )


def _alike(
    variables: Sequence[OutputVariable], size: int
) -> Iterator[tuple[tuple[bool, bool], list[str], np.ndarray]]:
    """Neighbours of the same kind, at most `size` of them: the kind, names and values."""
    for kind, group in groupby(variables, lambda one: (one.is_event, one.is_discrete)):
        alike = list(group)
        for begin in range(0, len(alike), size):
            part = alike[begin : begin + size]
            values = np.stack([np.asarray(one.values, float) for one in part])
            yield kind, [one.name for one in part], values


def _lines_of(
    overlap: Overlap, names: list[str], x: np.ndarray, is_event: bool, is_discrete: bool
) -> Lines:
    """The lines of variables of one kind (variable, run)."""
    if is_event:
        found = estimate_statistics(overlap, [probability_error(overlap, x)], x[:, None])
        gold = x @ overlap.as_gold / overlap.as_gold.sum()
        return _joined(names, (PROBABILITY,), found, gold[:, None], np.ones((len(x), 1)))
    moments = moments_of(overlap, x)
    moving = np.minimum(moments.gold_sd, moments.target_sd) > 0
    if not moving.all():
        names = [name for name, is_moving in zip(names, moving, strict=True) if is_moving]
        x, moments = x[moving], Moments(*(each[moving] for each in moments))
    scaled = scaled_by(moments, x)
    statistics, quantities = (
        [mean_error(overlap, scaled), sd_log_ratio(overlap, scaled)],
        [MEAN, SD],
    )
    gold, scale = [moments.gold_mean, moments.gold_sd], [moments.gold_sd]
    if not is_discrete:
        ranked = ranked_by(overlap, x)
        statistics += [share_below(overlap, ranked, level) for level in QUANTILES]
        statistics.append(interval_content(overlap, ranked))
        quantities += [*BELOW, INTERVAL]
        gold += [np.full(len(x), level) for level in (*QUANTILES, CONTENT)]
    scale += [np.ones(len(x))] * (len(quantities) - 1)
    found = estimate_statistics(overlap, statistics, scaled.powers)
    return _joined(names, quantities, found, np.stack(gold, axis=1), np.stack(scale, axis=1))


def _joined(
    names: Sequence[str],
    quantities: Sequence[str],
    found: Estimated,
    gold: np.ndarray,
    scale: np.ndarray,
) -> Lines:
    """Lines from arrays (variable, quantity), the quantities of a variable together."""
    num = gold.size
    flat = Estimated(*(each.reshape(num, *each.shape[2:]) for each in found))
    repeated = tuple(name for name in names for _ in quantities)
    return Lines(repeated, tuple(quantities) * len(names), flat, gold.ravel(), scale.ravel())
