"""The divergence of a Markov chain from its posterior, step by step."""

from aide.convergence.convergence import Convergence

__all__ = [
    "Convergence",
]
