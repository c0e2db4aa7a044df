"""Several targets against one gold standard."""

from aide.comparing.comparison import Comparison

__all__ = [
    "Comparison",
]
