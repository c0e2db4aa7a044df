"""From draws to numbers."""

from aide.estimation.closeness import NotWithin
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.tolerance import ErrorTolerance
from aide.estimation.interval import total_variation_bound
from aide.estimation.sandwich.sandwich import Sandwich
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Budget, Decided
from aide.estimation.yardsticks import Contrast

__all__ = [
    "Budget",
    "Contrast",
    "Decided",
    "ErrorTolerance",
    "Errors",
    "Estimate",
    "NotWithin",
    "Sandwich",
    "total_variation_bound",
]
