"""What all results have in common: headline, rows, notes, verdict, and how they are shown."""

from aide.reporting.result import Result

__all__ = [
    "Result",
]
