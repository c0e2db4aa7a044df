"""Learned meta-inference, which makes bounds tight."""

from aide.learned.fitting.reverse_fit import ReverseFit, load_reverse
from aide.learned.refined import RefinedChain, RefinedLangevin
from aide.learned.refined_smc import RefinedSmc

__all__ = [
    "RefinedChain",
    "RefinedLangevin",
    "RefinedSmc",
    "ReverseFit",
    "load_reverse",
]
