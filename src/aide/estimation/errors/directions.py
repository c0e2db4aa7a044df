r"""Combinations of variables in which target and gold standard differ most.

Gaussians with the means and covariances of both weighted samples have the symmetrised divergence
$\frac12\mathrm{tr}(\Sigma_p^{-1}\Sigma_q + \Sigma_q^{-1}\Sigma_p) - k + \frac12
\delta^\top(\Sigma_p^{-1} + \Sigma_q^{-1})\delta$. For a small set of variables, the divergence of
the set less those of its single variables is what the set adds. The combination within a set is the
direction in which the ratio of variances is most extreme. It is chosen on one half of the runs and
measured on the other half, so that its limits are not those of the luckiest of many combinations.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from aide._core.types import Role
from aide.estimation.errors.overlap import Overlap
from aide.estimation.errors.quantities import moments_of, scaled_by, sd_log_ratio
from aide.estimation.errors.simultaneous import limits_of
from aide.estimation.errors.statistics import estimate_statistics
from aide.estimation.errors.variables import OutputVariable

MOST_VARIABLES = 40
"""Number of variables among which combinations are searched, those that differ most: a choice."""
MOST_DIRECTIONS = 3
"""Largest number of combinations that are named: a choice."""
RUNS_PER_VARIABLE = 10
"""Least number of runs per variable for a covariance that is certain enough to search: a choice."""
ENOUGH = 0.8
"""A smaller set is preferred if it adds this share of what the larger one adds: a choice."""
LEAST_NATS = 0.05
"""Least number of nats that a named combination adds: a choice."""
LEAST_SHARE = 0.1
"""Least share that a named combination adds of all nats of means and covariances: a choice."""
MISSED = 0.3
"""A correlation with a larger error is named whatever its share of the nats: a choice."""
TINY = 1e-9
"""Smallest eigenvalue of correlations relative to the largest; smaller ones are rounding."""


class Direction(NamedTuple):
    """A combination of two or three variables.

    names: Names of the variables.
    coefficients: Coefficients of the combination, in sds of the gold standard.
    ratio: The target's sd along the combination over the gold standard's.
    low: Lower limit of the ratio.
    high: Upper limit of the ratio; limits hold for all combinations together.
    nats: Nats of means and covariances that the set adds to its single variables.
    correlations: Of two variables, under the gold standard and the target; else `None`.
    """

    names: tuple[str, ...]
    coefficients: tuple[float, ...]
    ratio: float
    low: float
    high: float
    nats: float
    correlations: tuple[float, float] | None

    @property
    def is_certain(self) -> bool:
        """Whether the limits of the ratio exclude 1."""
        return not self.low <= 1 <= self.high


class Blame(NamedTuple):
    """Divergences of single variables, of arrays and of combinations, by means and covariances.

    Attributes:
        nats: Symmetrised divergence of all variables together.
        singles: Divergence of every single variable, largest first.
        blocks: Divergence of every array, by its name, largest first.
        directions: Combinations that single variables do not explain, by what they add.
    """

    nats: float
    singles: tuple[tuple[str, float], ...]
    blocks: tuple[tuple[str, float], ...]
    directions: tuple[Direction, ...]


class _Gaussians(NamedTuple):
    """Means and covariances of both samples, in sds of the gold standard."""

    shift: np.ndarray
    gold: np.ndarray
    target: np.ndarray

    def nats(self, sets: np.ndarray) -> np.ndarray:
        """Symmetrised divergence of sets of variables: one row of indices per set."""
        rows, columns = sets[:, :, None], sets[:, None, :]
        gold, target, shift = self.gold[rows, columns], self.target[rows, columns], self.shift[sets]
        back, forth = _inverses(gold), _inverses(target)
        traces = np.einsum("sij,sji->s", back, target) + np.einsum("sij,sji->s", forth, gold)
        moved = np.einsum("si,sij,sj->s", shift, back + forth, shift)
        return 0.5 * (traces + moved) - sets.shape[1]

    def nats_of(self, chosen: Sequence[int]) -> float:
        """Symmetrised divergence of one set of variables."""
        return float(self.nats(np.array([list(chosen)]))[0])

    def added(self, sets: np.ndarray) -> np.ndarray:
        """What sets of variables add to the divergences of their single variables."""
        alone = self.nats(np.arange(self.shift.size)[:, None])
        found = self.nats(sets) - alone[sets].sum(axis=1)
        return np.where(np.isfinite(found), found, -np.inf)


def _inverses(matrices: np.ndarray) -> np.ndarray:
    """Inverses of square matrices; not a number for singular ones."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full(matrices.shape, np.nan)
        return np.concatenate([_inverses(one[None]) for one in matrices])


def find_blame(overlap: Overlap, variables: Sequence[OutputVariable], level: float) -> Blame | None:
    """Rank variables, arrays and combinations; `None` with fewer than two real variables."""
    real = [
        one
        for one in variables
        if not (one.is_event or one.is_function)
        and np.isfinite(one.values).all()
        and np.ptp(one.values) > 0
    ]
    room = int(min(overlap.num_runs) / RUNS_PER_VARIABLE)
    if len(real) < 2 or room < 2:
        return None
    columns = np.stack([one.values for one in real], axis=1)
    whole = _gaussians(overlap, columns)
    if not np.isfinite(whole.gold).all() or not np.isfinite(whole.target).all():
        return None
    alone = whole.nats(np.arange(len(real))[:, None])
    order = np.argsort(-alone, kind="stable")
    kept = _searched(whole, order, min(MOST_VARIABLES, room))
    nats = whole.nats_of(kept)
    singles = tuple((real[i].name, float(alone[i])) for i in order)
    directions = _directions(overlap, columns, whole, kept, level, nats)
    named = tuple(
        one._replace(names=tuple(real[int(i)].name for i in one.names)) for one in directions
    )
    return Blame(nats, singles, _blocks(whole, [one.name for one in real], room), named)


def _searched(whole: _Gaussians, order: np.ndarray, most: int) -> list[int]:
    """Variables that differ most: half of them alone, the other half by a correlation."""
    if order.size <= most:
        return sorted(order.tolist())
    chosen = order[: most // 2].tolist()
    scale = np.sqrt(np.diag(whole.target))
    gap = np.abs(whole.target / np.outer(scale, scale) - whole.gold)
    gap = np.maximum(gap, gap.T)  # rounding errors do not order the two variables of a pair
    for i in np.argsort(-gap.max(axis=1), kind="stable"):
        if len(chosen) < most and i not in chosen:
            chosen.append(int(i))
    return sorted(chosen)


def _blocks(whole: _Gaussians, names: list[str], room: int) -> tuple[tuple[str, float], ...]:
    arrays: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        arrays.setdefault(name.partition("[")[0], []).append(index)
    if len(arrays) < 2:
        return ()
    found = [(name, whole.nats_of(rows)) for name, rows in arrays.items() if len(rows) <= room]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


def _directions(
    overlap: Overlap,
    columns: np.ndarray,
    whole: _Gaussians,
    kept: list[int],
    level: float,
    nats: float,
) -> list[Direction]:
    """Disjoint sets of two or three variables, chosen on half of the runs, measured on the rest."""
    choose, measure = (_half(overlap, columns, part) for part in (0, 1))
    half = _gaussians(*choose)
    found: list[Direction] = []
    left, single = list(kept), 1 - (1 - level) / MOST_DIRECTIONS
    while len(left) >= 2 and len(found) < MOST_DIRECTIONS:
        chosen = _best_set(half, left)
        added = float(whole.added(np.array([chosen]))[0])
        pair = _correlations(whole, chosen) if len(chosen) == 2 else None
        is_missed = pair is not None and abs(pair[0] - pair[1]) > MISSED
        if not added > max(LEAST_NATS, 0.0 if is_missed else LEAST_SHARE * nats):
            break
        one = _measured(half, *measure, chosen, single)
        found.append(one._replace(nats=added, correlations=pair))
        left = [i for i in left if i not in chosen]
    return found


def _best_set(half: _Gaussians, left: list[int]) -> list[int]:
    """The two variables that add most to single ones, or three if these add much more."""
    pairs = np.array(list(combinations(left, 2)))
    gains = half.added(pairs)
    order = np.argsort(-gains, kind="stable")
    best, most = pairs[order[0]].tolist(), gains[order[0]]
    firsts = pairs[order[:5]].tolist()
    triples = [sorted({*pair, i}) for pair in firsts for i in left if i not in pair]
    if not triples:
        return best
    more = half.added(np.array(triples))
    return best if most >= ENOUGH * more.max() else triples[int(np.argmax(more))]


def _measured(
    half: _Gaussians, overlap: Overlap, columns: np.ndarray, chosen: list[int], level: float
) -> Direction:
    """The most extreme direction of a set, with the ratio of sds on other runs."""
    rows = np.ix_(chosen, chosen)
    values, vectors = np.linalg.eigh(half.gold[rows])
    root = vectors / np.sqrt(np.maximum(values, TINY * values[-1]))
    ratios, turned = np.linalg.eigh(root.T @ half.target[rows] @ root)
    worst = int(np.argmax(np.abs(np.log(np.maximum(ratios, 1e-300)))))
    direction = root @ turned[:, worst]
    direction /= np.linalg.norm(direction) * np.sign(direction[np.argmax(np.abs(direction))])
    scale = np.sqrt(np.maximum(np.diag(_raw(overlap.as_gold, columns)[1])[chosen], 1e-300))
    x = (columns[:, chosen] / scale) @ direction
    scaled = scaled_by(moments_of(overlap, x), x)
    found = estimate_statistics(overlap, [sd_log_ratio(overlap, scaled)], scaled.powers)
    numbers = np.concatenate([found.value, *limits_of(found, level)])
    ratio, low, high = np.exp(np.minimum(numbers, 700.0)).tolist()
    names = tuple(map(str, chosen))
    return Direction(names, tuple(map(float, direction)), ratio, low, high, 0.0, None)


def _correlations(whole: _Gaussians, chosen: list[int]) -> tuple[float, float]:
    i, j = chosen
    gold, target = (
        float(cov[i, j] / np.sqrt(cov[i, i] * cov[j, j])) for cov in (whole.gold, whole.target)
    )
    return gold, target


def _gaussians(overlap: Overlap, columns: np.ndarray) -> _Gaussians:
    (gold_mean, gold), (target_mean, target) = (
        _raw(weights, columns) for weights in (overlap.as_gold, overlap.as_target)
    )
    scale = np.sqrt(np.maximum(np.diag(gold), 1e-300))
    both = np.outer(scale, scale)
    return _Gaussians((target_mean - gold_mean) / scale, gold / both, target / both)


def _raw(weights: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    share = weights / weights.sum()
    mean = share @ columns
    centred = columns - mean
    return mean, (share[:, None] * centred).T @ centred


def _half(overlap: Overlap, columns: np.ndarray, part: int) -> tuple[Overlap, np.ndarray]:
    """One half of the runs of either algorithm: every other run, or half of every chain."""
    kept, rows, sizes = [], [], []
    for role in Role:
        begin, num = (0 if role == 0 else overlap.num_gold), overlap.num_runs[role]
        sequences = overlap.rows[role]
        if sequences is None:
            own, rows_of = np.arange(part, num, 2), None
        else:
            cut = [
                each[: len(each) // 2] if part == 0 else each[len(each) // 2 :]
                for each in sequences
            ]
            own = np.concatenate(cut)
            ends = np.cumsum([len(each) for each in cut])
            rows_of = tuple(np.arange(e - len(c), e) for c, e in zip(cut, ends, strict=True))
        kept.append(begin + own)
        rows.append(rows_of)
        sizes.append(own.size)
    chosen = np.concatenate(kept)
    smaller = replace(
        overlap,
        log_ratio=overlap.log_ratio[chosen],
        num_gold=sizes[0],
        rows=(rows[0], rows[1]),
    )
    return smaller, columns[chosen]
