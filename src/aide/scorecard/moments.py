"""Mean and standard deviation of a coordinate, with Monte Carlo errors, and their comparison."""

from typing import NamedTuple

import numpy as np

from aide._core.chains import mean_variance


class MeanAndSd(NamedTuple):
    """Mean and standard deviation of one coordinate, with their Monte Carlo errors.

    Attributes:
        mean: The mean.
        mean_error: Its standard error.
        sd: The standard deviation.
        sd_error: Its standard error.
    """

    mean: float
    mean_error: float
    sd: float
    sd_error: float

    @staticmethod
    def of(column: np.ndarray) -> "MeanAndSd":
        """Return the moments of draws (chain, draw), whose autocorrelation counts."""
        mean = float(column.mean())
        squares = (column - mean) ** 2
        sd = float(np.sqrt(squares.mean()))
        errors = [mean_variance(list(each)).variance ** 0.5 for each in (column, squares)]
        return MeanAndSd(mean, float(errors[0]), sd, float(errors[1] / (2 * sd)))

    def largest_z(self, other: "MeanAndSd") -> float:
        """Return the difference of means or of sds, in standard errors, whichever is larger."""
        means = abs(self.mean - other.mean) / np.hypot(self.mean_error, other.mean_error)
        sds = abs(self.sd - other.sd) / np.hypot(self.sd_error, other.sd_error)
        return float(max(means, sds))
