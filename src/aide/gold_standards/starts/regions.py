r"""Whether one population misses a region that another holds, of the same distribution.

Pilots that walked different paths to one posterior, or the same pilots before and after a longer
walk there, should be spread alike. What one of them lacks, the other has found.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from aide._core.numerics import special

SHARES, LEAST_INSIDE = (0.02, 0.04, 0.08), 0.04
"""Of a population, in the intervals that are looked at; in those that are no tails at least."""
SURE_TAIL, SURE_INSIDE = 16.0, 22.0
"""Nats of evidence against equal shares from which on a tail, or an interval that is none, counts
as missing: there are more of the latter. Resampling makes particles alike, so that they count as
fewer than they are."""
FEW_TIMES = 3.0
"""How many times as frequent a region must be in one population as in the other."""


class Region(NamedTuple):
    """An interval of one coordinate, with the shares of two populations in it.

    Attributes:
        place: The coordinate, counted in the flattened state.
        low: Its lower end.
        high: Its upper end.
        share: Of the population that holds it.
        other: Of the population that misses it.
    """

    place: int
    low: float
    high: float
    share: float
    other: float

    @property
    def words(self) -> str:
        """Where it is."""
        where = f"coordinate {self.place}"
        if self.low == -np.inf:
            return f"{where} below {self.high:.3g}"
        if self.high == np.inf:
            return f"{where} above {self.low:.3g}"
        return f"{where} between {self.low:.3g} and {self.high:.3g}"


def missing_region(
    holder: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"]
) -> Region | None:
    """Where the first population is and the second is not; the surest such interval, or none."""
    best, surest = None, 1.0
    for place in range(holder.shape[1]):
        one, two = np.sort(holder[:, place]), np.sort(other[:, place])
        for share in SHARES:
            ends = np.quantile(one, np.linspace(0.0, 1.0, round(1 / share) + 1))
            ends[0], ends[-1] = -np.inf, np.inf
            counts = [np.diff(np.searchsorted(values, ends)) for values in (one, two)]
            shares = [count / values.size for count, values in zip(counts, (one, two), strict=True)]
            needed = np.full(len(ends) - 1, SURE_INSIDE if share >= LEAST_INSIDE else np.inf)
            needed[[0, -1]] = SURE_TAIL
            sure = _evidence(counts[0], counts[1], len(one), len(two)) / needed
            sure[shares[0] < FEW_TIMES * shares[1]] = 0.0
            number = int(np.argmax(sure))
            if sure[number] > surest:
                surest, found = sure[number], (float(part[number]) for part in shares)
                best = Region(place, float(ends[number]), float(ends[number + 1]), *found)
    return best


def _evidence(one: np.ndarray, other: np.ndarray, num: int, num_other: int) -> np.ndarray:
    """Log likelihood ratio of two binomial shares against one common share, by interval."""

    def log_likelihood(count: np.ndarray, size: int, share: np.ndarray) -> np.ndarray:
        return special.xlogy(count, share) + special.xlogy(size - count, 1 - share)

    common = (one + other) / (num + num_other)
    apart = log_likelihood(one, num, one / num) + log_likelihood(
        other, num_other, other / num_other
    )
    return apart - log_likelihood(one, num, common) - log_likelihood(other, num_other, common)
