"""Inference algorithms, one family a file."""

from aide._core.distribution import strict
from aide.algorithms.annealed import Tempered
from aide.algorithms.mcmc import MarkovChain
from aide.algorithms.numpy_filter import NumpyProposal

__all__ = [
    "MarkovChain",
    "NumpyProposal",
    "Tempered",
    "strict",
]
