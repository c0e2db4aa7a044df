"""Inference algorithms, one family a file."""

from aide.algorithms.annealed import Tempered

__all__ = [
    "Tempered",
]
