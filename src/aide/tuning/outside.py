"""Which observations are unlike the simulated ones that an amortised posterior was trained on?"""

from typing import NamedTuple

import numpy as np

LEVEL = 0.01
"""P-value at which an observation counts as outside of what was simulated."""


class Outside(NamedTuple):
    r"""Conformal p-values of observations.

    The centre and the covariance are those of the first half of the simulated data; the distance of
    an observation is ranked among the distances of the $m$ simulated data of the second half.

    Law: an observation from the law of the simulated data has $P(p \le \alpha) \le \alpha$ for
    every $\alpha$, whatever that law is (Vovk, Gammerman & Shafer 2005).

    Attributes:
        p_values: $(1 + \#\{\text{simulated at least as far away}\})/(m + 1)$, one per observation.
        level: P-value at which an observation is flagged.
    """

    p_values: np.ndarray
    level: float

    @property
    def flags(self) -> np.ndarray:
        """Observations that count as outside."""
        return self.p_values <= self.level

    @property
    def expected(self) -> float:
        """Number of flags to expect at most, if all observations are like the simulated ones."""
        return self.level * self.p_values.size


def find_outside(observations: np.ndarray, simulated: np.ndarray, level: float) -> Outside:
    """P-values of the rows of `observations` among the rows of `simulated`."""
    least = 2 * int(np.ceil(1 / level))
    if len(simulated) < least:
        raise ValueError(
            f"simulated must hold at least {least} data sets to flag observations at p = {level:g},"
            f" got {len(simulated)}."
        )
    if simulated.shape[1] != observations.shape[1]:
        raise ValueError(
            f"simulated must hold data sets like the observations, of {observations.shape[1]} "
            f"numbers each, got {simulated.shape[1]}."
        )
    half = len(simulated) // 2
    distance = fit_distance(simulated[:half])
    known = np.sort(distance(simulated[half:]))
    further = known.size - np.searchsorted(known, distance(observations), side="left")
    return Outside((1 + further) / (known.size + 1), level)


def fit_distance(rows: np.ndarray):
    """The Mahalanobis distance from the mean of some rows, in as many dimensions as they span."""
    mean = rows.mean(axis=0)
    _, scales, directions = np.linalg.svd(rows - mean, full_matrices=False)
    scales = scales / np.sqrt(max(len(rows) - 1, 1))
    floor = 1e-6 * max(scales.max(initial=0.0), 1e-300)

    def distance(points: np.ndarray) -> np.ndarray:
        along = (points - mean) @ directions.T
        across = np.linalg.norm(points - mean - along @ directions, axis=1)
        return np.hypot(np.linalg.norm(along / np.maximum(scales, floor), axis=1), across / floor)

    return distance
