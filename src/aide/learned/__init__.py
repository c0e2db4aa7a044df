"""Learned meta-inference, for bounds that are tight."""

from aide.learned.fit import ReverseFit
from aide.learned.refined import RefinedSmc
from aide.learned.storage import load_reverse

__all__ = [
    "RefinedSmc",
    "ReverseFit",
    "load_reverse",
]
