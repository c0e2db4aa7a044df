"""Is an algorithm, or a kernel, what it claims to be?"""

from aide.checking.algorithm.report import CheckReport
from aide.checking.kernel.result import KernelCheck

__all__ = [
    "CheckReport",
    "KernelCheck",
]
