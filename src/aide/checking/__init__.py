"""Tests of the laws that algorithms and kernels must obey."""

from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.check import KernelCheck

__all__ = [
    "CheckReport",
    "KernelCheck",
]
