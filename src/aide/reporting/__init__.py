"""Shared parts of all results: headline, rows, notes, verdict, and the ways to show them."""

from aide.reporting.result import Result

__all__ = [
    "Result",
]
