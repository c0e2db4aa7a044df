"""From draws to numbers."""

from aide.estimation.interval import total_variation_bound
from aide.estimation.sandwich.sandwich import Sandwich
from aide.estimation.summary import Estimate
from aide.estimation.yardsticks import Contrast

__all__ = [
    "Contrast",
    "Estimate",
    "Sandwich",
    "total_variation_bound",
]
