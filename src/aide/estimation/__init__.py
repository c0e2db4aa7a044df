"""From draws to numbers."""

from aide.estimation.interval import total_variation_bound
from aide.estimation.summary import Estimate
from aide.estimation.yardsticks import Comparison

__all__ = [
    "Comparison",
    "Estimate",
    "total_variation_bound",
]
