"""Several targets against one gold standard; two sets of draws against each other."""

from aide.comparing.compare_draws import DrawsDifference
from aide.comparing.comparison import Comparison

__all__ = [
    "Comparison",
    "DrawsDifference",
]
