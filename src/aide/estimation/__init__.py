"""From draws to numbers."""

from aide._core.keywords import former_name
from aide.estimation.closeness import NotWithin
from aide.estimation.errors.errors import Errors
from aide.estimation.errors.tolerance import ErrorTolerance
from aide.estimation.interval import total_variation_bound
from aide.estimation.sandwich.sandwich import Sandwich
from aide.estimation.summary import Estimate
from aide.estimation.until.goals import Decided
from aide.estimation.yardsticks import Contrast

_FORMER = {"Budget": "max_runs= and max_seconds= of aide.estimate and aide.tune"}


def __getattr__(name: str) -> object:
    """Names of earlier versions are errors with the names of now."""
    raise former_name(__name__, name, _FORMER)


__all__ = [
    "Contrast",
    "Decided",
    "ErrorTolerance",
    "Errors",
    "Estimate",
    "NotWithin",
    "Sandwich",
    "total_variation_bound",
]
