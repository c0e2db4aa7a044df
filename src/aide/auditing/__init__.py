"""Audits: comparisons of a gold standard with versions of itself."""

from aide.auditing.result import Audit
from aide.auditing.simulated import Simulated

__all__ = [
    "Audit",
    "Simulated",
]
