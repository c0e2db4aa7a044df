r"""Regions that one population misses and another holds, though both are of the same distribution.

Pilots that walked different paths to one posterior, or the same pilots before and after a longer
walk there, should be spread alike: each population shows regions that the other lacks.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from aide._core.numerics import special

SHARES = (0.02, 0.04, 0.08)
"""Shares of a population in the intervals that are compared: a choice."""
LEAST_INSIDE = 0.04
"""Least share of an interval that is not a tail: a choice."""
SURE_TAIL = 16.0
"""Evidence against equal shares, in nats, from which a tail counts as missing: a choice. Resampled
particles are alike and count as fewer than they are, hence the large number."""
SURE_INSIDE = 22.0
"""The same evidence for an interval that is not a tail: there are more such intervals."""
FEW_TIMES = 3.0
"""Least ratio of a missing region's shares in the two populations: a choice."""


class Region(NamedTuple):
    """An interval of one coordinate, with the shares of two populations in it.

    Attributes:
        place: Index of the coordinate in the flattened state.
        low: Lower end of the interval.
        high: Upper end of the interval.
        share: Share of the population that holds the region.
        other: Share of the population that misses the region.
    """

    place: int
    low: float
    high: float
    share: float
    other: float

    @property
    def words(self) -> str:
        """The interval in words."""
        where = f"coordinate {self.place}"
        if self.low == -np.inf:
            return f"{where} below {self.high:.3g}"
        if self.high == np.inf:
            return f"{where} above {self.low:.3g}"
        return f"{where} between {self.low:.3g} and {self.high:.3g}"


def missing_region(
    holder: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"]
) -> Region | None:
    """The surest interval with much of the first population and little of the other, if any."""
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
