"""Inference algorithms, one family a file."""

from aide.algorithms.annealed import Tempered
from aide.algorithms.mcmc import MarkovChain

__all__ = [
    "MarkovChain",
    "Tempered",
]
