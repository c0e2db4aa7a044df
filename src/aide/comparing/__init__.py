"""Several targets against one gold standard; two sets of draws against each other."""

from aide.comparing.comparison import Comparison
from aide.comparing.draws_difference import DrawsDifference

__all__ = [
    "Comparison",
    "DrawsDifference",
]
