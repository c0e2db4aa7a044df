"""The divergence of a Markov chain from its posterior, step by step."""

from aide.convergence.curve import Convergence

__all__ = [
    "Convergence",
]
