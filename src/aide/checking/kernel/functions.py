"""Functions of one state and of two, chosen on pilot runs, in which a kernel's law is tested."""

from typing import NamedTuple

import numpy as np

from aide.checking.kernel.runs import Points, StepRuns

PLACES = ((0.3, 0.3), (0.6, 1.0), (0.8, 0.3), (0.45, 1.0), (0.2, 0.5))
"""For every sigmoid the quantile at which it rises, and its width in sds: a choice of variety."""
MOST_COORDINATES = 3
"""Largest number of coordinates of the state, drawn at random, among the functions."""
NUM_RANDOM = 2
"""Number of random projections of the state among the functions."""
FAR = 1e100
"""Size to which infinite numbers are cut, so that sums of them are finite."""


class View(NamedTuple):
    r"""All functions of some runs, one row a run; without a reversal its columns are the kernel's.

    Attributes:
        log_weight: $\log w/c$ at the start, $w = \pi/s$.
        log_weight_after: $\log w/c$ after a step of the kernel.
        log_weight_reverse: $\log w/c$ after a step of the reversal.
        before: Functions of the start, between 0 and 1.
        after: Functions of the state after a step of the kernel.
        reverse: Functions of the state after a step of the reversal.
        jumps: Odd functions of the kernel's step, between -1 and 1.
        jumps_reverse: Odd functions of the reversal's step.
    """

    log_weight: np.ndarray
    log_weight_after: np.ndarray
    log_weight_reverse: np.ndarray
    before: np.ndarray
    after: np.ndarray
    reverse: np.ndarray
    jumps: np.ndarray
    jumps_reverse: np.ndarray


class Functions:
    r"""Sigmoids of coordinates, of random projections and of $\log\pi$; indicators; jumps.

    Args:
        runs: Pilot runs, to which locations and scales are fitted.
        log_bound: $\log c$.
        rng: Random numbers that choose coordinates and projections.
    """

    def __init__(self, runs: StepRuns, log_bound: float, rng: np.random.Generator):
        before, self.log_bound = runs.before, log_bound
        weights = np.exp(np.minimum(before.log_weight - log_bound, 0.0))
        weights = weights / weights.sum()
        flat = _cut(before.flat)
        self.mean = weights @ flat
        spread = np.sqrt(weights @ (flat - self.mean) ** 2)
        self.scale = np.where(spread > 0, spread, 1.0)
        varying = np.flatnonzero(spread > 0)
        self.directions, self.labels = _directions(rng, flat.shape[1], varying)
        projected = self._project(before)
        self.which = np.arange(len(PLACES)) % len(self.labels)
        rise = [_quantile(projected[:, k], weights, PLACES[i][0]) for i, k in enumerate(self.which)]
        self.rise, self.width = np.array(rise), np.array([width for _, width in PLACES])
        log_p = projected[:, -1]
        self.log_centre = _quantile(log_p, weights, 0.5)
        self.log_width = _quantile(np.abs(log_p - self.log_centre), weights, 0.7) + 1e-9
        self.values = _values(rng, flat, weights, varying)
        jumps = np.minimum(np.abs(self._project(runs.after) - projected), 1e9)
        self.jump_scale = np.sqrt(weights @ jumps**2) + 1e-12
        self.names = ["1", *(f"sigmoid of {self.labels[k]}" for k in self.which), "log density"]
        self.names += [f"[coordinate {i} = {value:g}]" for i, value in self.values]

    def look(self, runs: StepRuns) -> "View":
        """All functions at all states and steps of some runs."""
        where = [points for points in runs if points is not None]
        projected = [self._project(points) for points in where]
        states = [self._states(*parts) for parts in zip(where, projected, strict=True)]
        jumps = [np.tanh((ahead - projected[0]) / self.jump_scale) for ahead in projected[1:]]
        weights = [points.log_weight - self.log_bound for points in where]
        # Without a reversal, the last of each is the kernel's again.
        return View(
            *(weights[0], weights[1], weights[-1]),
            *(states[0], states[1], states[-1]),
            *(jumps[0], jumps[-1]),
        )

    def _states(self, points: Points, projected: np.ndarray) -> np.ndarray:
        from scipy import special

        sigmoids = special.expit((projected[:, self.which] - self.rise) / self.width)
        level = special.expit((projected[:, -1:] - self.log_centre) / self.log_width)
        hits = [points.flat[:, i] == value for i, value in self.values]
        columns = [np.ones_like(level), sigmoids, level, *(hit[:, None] for hit in hits)]
        return np.concatenate(columns, axis=1)

    @property
    def jump_names(self) -> list[str]:
        """Names of the odd functions of the displacement: one per direction, and log density."""
        return [f"jump of {label}" for label in (*self.labels, "log density")]

    def _project(self, points: Points) -> np.ndarray:
        """Standardised coordinates along the directions, and log density as the last column."""
        standard = (_cut(points.flat) - self.mean) / self.scale
        return np.column_stack([standard @ self.directions, _cut(points.log_density)])


def _directions(
    rng: np.random.Generator, size: int, varying: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Some coordinates that vary; for more than one, random unit vectors besides."""
    chosen = np.sort(rng.permutation(varying)[:MOST_COORDINATES])
    columns = [np.eye(1, size, i)[0] for i in chosen]
    labels = [f"coordinate {i}" for i in chosen]
    for index in range(NUM_RANDOM if varying.size > 1 else 0):
        vector = rng.normal(size=size) * np.isin(np.arange(size), varying)
        columns.append(vector / np.linalg.norm(vector))
        labels.append(f"random projection {index + 1}")
    if not columns:
        return np.zeros((size, 1)), ["the state"]
    return np.stack(columns, axis=1), labels


def _values(
    rng: np.random.Generator, flat: np.ndarray, weights: np.ndarray, varying: np.ndarray
) -> list[tuple[int, float]]:
    """For two discrete coordinates, the value whose probability is closest to one half."""
    found = []
    for i in rng.permutation(varying):
        if len(found) == 2 or (found and varying.size > 1000):
            break
        if not (flat[:100, i] == np.round(flat[:100, i])).all():
            continue
        values, which = np.unique(flat[:, i], return_inverse=True)
        shares = np.bincount(which, weights)
        found.append((int(i), float(values[np.argmin(np.abs(shares - 0.5))])))
    return found


def _quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    order = np.argsort(values)
    at = np.searchsorted(np.cumsum(weights[order]), level)
    return float(values[order][min(at, values.size - 1)])


def _cut(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -FAR, FAR)
