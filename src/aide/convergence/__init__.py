"""How far a Markov chain is from its posterior, step by step."""

from aide.convergence.curve import Convergence

__all__ = [
    "Convergence",
]
