"""Slow plain references, written from the formulas and not from the library's code."""
