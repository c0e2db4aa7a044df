"""Is a gold standard one?"""

from aide.auditing.result import Audit
from aide.auditing.simulated import Simulated

__all__ = [
    "Audit",
    "Simulated",
]
